"""Run a batch of work as one Kubernetes Job, and wait for it without a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_batchjob.core.request.spec import NOT_GIVEN, NotGiven
from airflow_batchjob.hooks.batchjob import DEFAULT_CONNECTION
from airflow_batchjob.operators import parameters, rendering
from airflow_batchjob.operators.foreign_names import refuse_foreign_names, warn_of_foreign_names
from airflow_batchjob.operators.mapping import Partial
from airflow_batchjob.operators.running import Runner
from airflow_batchjob.tasks import no_useless_retries, push
from airflow_batchjob.unknown_names import refuse_unknown_names

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_batchjob.core.capacity.capacity import OnDemand, SpotPolicy
    from airflow_batchjob.core.event import Order, Verdict
    from airflow_batchjob.core.sharing.machine import Machine


class BatchJobOperator(BaseOperator):
    """Run a batch/v1 Job: submit it once, wait without holding a worker, and end as it ended.

    The Job comes from `manifest`, or is built from `image`, `command` and so on. A parameter given
    overrides the manifest, one not given changes nothing in it. What isn't templated is checked when
    the DAG is parsed. Numbers may be Jinja or another task's output where a parameter is templated.

    Args:
        manifest: A batch/v1 Job: the name of a YAML file, sought as Airflow's templates are, or its
            text, or a dict. Jinja in the file is rendered when the task runs. (templated)
        variables: What `${NAME}` in the manifest's values stands for. (templated)
        image: Container image. (templated)
        command: Replaces the image's entrypoint: a list of words. (templated)
        args: Replaces the arguments: a list of words. (templated)
        env: Environment variables by name; a value may be `{"valueFrom": …}`. Merged by name. (templated)
        env_from: EnvFromSources, e.g. `[{"secretRef": {"name": "token"}}]`, added to the manifest's own.
        container_resources: `{"requests": …, "limits": …}`, sent as given; not together with `machine`.
        container: The container that image, command, args, env, env_from and container_resources act
            on. Default: the only one, else the first.
        pod: A partial pod spec as Kubernetes spells it (volumes, affinity, initContainers, …), merged
            by Kubernetes' own keys. (templated)
        labels: Merged into those of the Job and its pods. (templated)
        annotations: Merged into those of the Job and its pods. (templated)
        service_account_name: Of the pods.
        image_pull_secrets: Names of secrets.
        node_selector: Merged into the manifest's own.
        tolerations: Added to the manifest's own.
        name: Readable part of the Job's name. Default: the manifest's name, else DAG and task. (templated)
        namespace: Where the Job runs. Default: the manifest's, else the connection's. (templated)
        completions: How many indexes; 0 skips the task. Default when built from parameters: 1. (templated)
        parallelism: How many pods at once. Default when built from parameters: as `completions`. (templated)
        machine: What the containers of a pod share: a `Machine`, or the name of one in the connection's
            extra or in the setting `[batchjob] defaults`.
        capacity: "on_demand", "spot", a `SpotPolicy` (spot, then on-demand) or an `OnDemand`.
        retries_per_index: How many pods of one index may fail and be replaced. Default when built from
            parameters: 0.
        backoff_limit: How many pods of the whole Job may fail.
        max_failed_indexes: The Job ends as soon as more indexes than this have failed: a number, or a
            percentage of the completions, rounded down. (templated)
        min_succeeded: How many indexes must have succeeded at the end: a number, or a percentage,
            rounded up. Default: all. (templated)
        stop_when_succeeded: End the Job once `min_succeeded` is reached.
        exit_codes: What exit codes mean: `{"fail_index": [42], "fail_job": [43], "skip": [99]}`. "skip"
            skips the task, and needs one completion.
        deadline_seconds: Longest active time of all Jobs of one try; suspended time doesn't count.
        pending_seconds: Longest time in which pods wait for a machine, none is newly scheduled and none
            runs. Default: no limit; 900 where `capacity` may fall back.
        kubernetes_conn_id: A connection of the type `kubernetes`. "kubernetes_default", where it does
            not exist, means in-cluster or kubeconfig. (templated)
        deferrable: Wait in the triggerer, after a few seconds in the worker; False: in the worker.
        on_retry: What a retry runs: "rest", only what has not succeeded, or "all".
        on_clear: What runs after the task was cleared: "rest" or "all".
        resume_key: Two tries whose keys differ do different work, whatever else they have in common;
            in place of comparing image, command, args, env, volumes and completions. (templated)
        on_finish: What becomes of an ended Job: "keep", "delete", or "delete_when_met".
        ttl_seconds_after_finished: How long an ended Job is kept; None: for ever. Default: a day if what
            was asked is met, else seven.
        logs: "auto" (up to 4 completions every line live, above that progress and the tails of failed
            indexes), "all", "failed", "none", or indexes to follow such as "0,17".
        log_containers: Names of the containers whose logs are shown. Default: all.
        kwargs: Arguments of every Airflow operator.
    """

    template_fields: Sequence[str] = (
        "manifest",
        "variables",
        "image",
        "command",
        "args",
        "env",
        "pod",
        "labels",
        "annotations",
        "name",
        "namespace",
        "completions",
        "parallelism",
        "max_failed_indexes",
        "min_succeeded",
        "kubernetes_conn_id",
        "resume_key",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "manifest": "yaml",
        **dict.fromkeys(("variables", "env", "pod", "labels", "annotations"), "json"),
    }
    ui_color = "#dbe9f6"
    partial: Any = Partial()

    def __init__(
        self,
        *,
        manifest: Any = None,
        variables: Mapping[str, Any] | None = None,
        image: str | None = None,
        command: Sequence[str] | None = None,
        args: Sequence[str] | None = None,
        env: Any = None,
        env_from: Sequence[Any] | None = None,
        container_resources: Any = None,
        container: str | None = None,
        pod: Any = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        service_account_name: str | None = None,
        image_pull_secrets: Sequence[Any] | None = None,
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Any] | None = None,
        name: str | None = None,
        namespace: str | None = None,
        completions: Any = None,
        parallelism: Any = None,
        machine: Machine | str | None = None,
        capacity: SpotPolicy | OnDemand | str | None = None,
        retries_per_index: int | None = None,
        backoff_limit: int | None = None,
        max_failed_indexes: Any = None,
        min_succeeded: Any = None,
        stop_when_succeeded: bool = False,
        exit_codes: Mapping[str, Sequence[int]] | None = None,
        deadline_seconds: int | None = None,
        pending_seconds: int | None = None,
        kubernetes_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = True,
        on_retry: str = "rest",
        on_clear: str = "rest",
        resume_key: str | None = None,
        on_finish: str = "keep",
        ttl_seconds_after_finished: int | NotGiven | None = NOT_GIVEN,
        logs: str = "auto",
        log_containers: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_foreign_names(kwargs)
        refuse_unknown_names(type(self), kwargs)
        super().__init__(**kwargs)
        warn_of_foreign_names(self.task_id, kwargs.get("default_args") or {})
        self.manifest = manifest
        self.variables = variables
        self.image = image
        self.command = command
        self.args = args
        self.env = env
        self.env_from = env_from
        self.container_resources = container_resources
        self.container = container
        self.pod = pod
        self.labels = labels
        self.annotations = annotations
        self.service_account_name = service_account_name
        self.image_pull_secrets = image_pull_secrets
        self.node_selector = node_selector
        self.tolerations = tolerations
        self.name = name
        self.namespace = namespace
        self.completions = completions
        self.parallelism = parallelism
        self.machine = machine
        self.capacity = capacity
        self.retries_per_index = retries_per_index
        self.backoff_limit = backoff_limit
        self.max_failed_indexes = max_failed_indexes
        self.min_succeeded = min_succeeded
        self.stop_when_succeeded = stop_when_succeeded
        self.exit_codes = exit_codes
        self.deadline_seconds = deadline_seconds
        self.pending_seconds = pending_seconds
        self.kubernetes_conn_id = kubernetes_conn_id
        self.deferrable = deferrable
        self.on_retry = on_retry
        self.on_clear = on_clear
        self.resume_key = resume_key
        self.on_finish = on_finish
        self.ttl_seconds_after_finished = ttl_seconds_after_finished
        self.logs = logs
        self.log_containers = log_containers
        self._runner = Runner()
        parameters.check(self)

    def _do_render_template_fields(  # the one place that mapped and plain tasks both pass
        self,
        parent: Any,
        template_fields: Any,
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        if parent is not self:
            super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
            return
        with no_useless_retries():
            for field in template_fields:
                with rendering.explained(field, value=getattr(self, field), context=context):
                    super()._do_render_template_fields(parent, (field,), context, jinja_env, seen_oids)
            rendering.finish(self, jinja_env, context)

    def resolve_template_files(self) -> None:
        """Check the manifest's file: called when the DAG is complete, and its folders are known."""
        if rendering.is_file_name(self.manifest) and self.has_dag():  # type: ignore[no-untyped-call]
            text = rendering.read_file(os.fspath(self.manifest), self.get_template_env(self.dag))
            parameters.check(self, manifest=text)

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the Job, or attach to the one that an earlier try left; then defer, or wait here."""
        from airflow_batchjob.operators import attempt as trying
        from airflow_batchjob.operators import leaving, short_jobs

        with no_useless_retries():
            with leaving.nothing_left_of_earlier_tries(self, context):
                attempt = trying.begin(self, context, self._runner)
            with leaving.nothing_left_behind(self, context, attempt):
                ended = self._runner.run(trying.submit_job(attempt))
                if not isinstance(ended, trying.Ended):
                    self._push(context, trying.job_facts(ended))
                    ended = short_jobs.see_through(self, context, attempt, ended)
            return self._finish(context, ended.order, ended.verdict)

    def resume(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Tell how the Job ended that the trigger saw through. Safe to call twice with one event."""
        from airflow_batchjob.triggers.batchjob import Report

        report = Report.from_payload(event)
        if report.verdict is None:
            raise report.as_error()
        return self._finish(context, report.order, report.verdict)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume; where Airflow resumes only to fail, see first that no Job is left behind."""
        from airflow_batchjob.operators.leaving import nothing_left_behind

        with no_useless_retries(), nothing_left_behind(self, context):
            return super().resume_execution(next_method, next_kwargs, context)

    def on_kill(self) -> None:
        """End what runs now; it asks Airflow first whether the Job is to go on."""
        self._runner.kill()

    def dry_run(self) -> None:
        """Print the Job that would be sent, as `batchjob render` does."""
        from airflow_batchjob.core.identity.names import READABLE_NOTE, readable
        from airflow_batchjob.core.request.writing import write_yaml
        from airflow_batchjob.operators.attempt import built

        job = built(self)
        for note in (*job.notes, READABLE_NOTE):
            sys.stderr.write(f"# {note}\n")
        sys.stdout.write(write_yaml(readable(job.manifest)))

    def stated_namespace(self, context: Context) -> str | None:
        """Return the namespace that parameters or manifest name; None: the connection decides."""
        return rendering.stated_namespace(self, context)

    def _push(self, context: Context, values: Mapping[str, Any]) -> None:
        if self.do_xcom_push:
            push(context["ti"], values)

    def _finish(self, context: Context, order: Order, verdict: Verdict) -> dict[str, Any]:
        from airflow_batchjob.operators.ending import conclude_job, settings_of

        ending = self._runner.run(conclude_job(self, context, settings_of(self), order, verdict))
        # Before a failing end too: downstream tasks with trigger_rule="all_done" want them.
        self._push(context, ending.result)
        if ending.error is not None:
            raise ending.error
        return ending.result
