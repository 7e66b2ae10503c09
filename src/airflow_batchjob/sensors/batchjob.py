"""Wait for a Job that someone else runs, without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_batchjob.compat import AirflowSensorTimeout, AirflowSkipException
from airflow_batchjob.core.errors import JobFailedError
from airflow_batchjob.sensors import parameters
from airflow_batchjob.tasks import logger_of, no_useless_retries, push
from airflow_batchjob.unknown_names import refuse_unknown_names

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.supervisor.observe import Observation


class BatchJobSensor(BaseSensorOperator):
    """Wait until a Job has ended, has started, or has got far enough.

    It follows the newest generation of a Job and waits where there is none yet. A Job that ended
    below what is waited for is final when its task can't bring another: when that is in a final
    state, or at once where no task of this Airflow owns the Job. Returns what the operator returns.

    Args:
        of_task: The task that runs the Job: the operator itself (makes no dependency), or its full
            id, with task groups. (templated)
        of_dag: The DAG of that task. Default: this one; needs `of_run_id`. (templated)
        of_run_id: The run of that task. Default: this one. (templated)
        of_map_index: Its map index; -1 where it isn't mapped. (templated)
        name: In place of `of_task`: a Job's name. (templated)
        label_selector: In place of `of_task`: labels, as kubectl takes them; of several Jobs the
            newest counts. (templated)
        namespace: Where the Job is. Default: the operator's, where that is in this DAG, else the
            connection's. (templated)
        until: "ended", "started", or how many indexes must have succeeded: a number, or a percentage
            of the completions, rounded up. "ended" succeeds however the Job ended: see `verdict` in
            what is returned. (templated)
        max_failed: Fail as soon as more indexes than this have failed: a number, or a percentage,
            rounded down. (templated)
        kubernetes_conn_id: A connection of the type `kubernetes`. Default: the operator's, else
            "kubernetes_default". (templated)
        deferrable: Wait in the triggerer; False: in the worker, or with `mode="reschedule"` in turns.
        kwargs: Arguments of every Airflow sensor; `timeout` and `soft_fail` hold while deferred, too.
    """

    template_fields: Sequence[str] = (
        "of_task",
        "of_dag",
        "of_run_id",
        "of_map_index",
        "name",
        "label_selector",
        "namespace",
        "until",
        "max_failed",
        "kubernetes_conn_id",
    )
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        of_task: Any = None,
        of_dag: str | None = None,
        of_run_id: str | None = None,
        of_map_index: int | str = -1,
        name: str | None = None,
        label_selector: str | None = None,
        namespace: str | None = None,
        until: int | str = "ended",
        max_failed: int | str | None = None,
        kubernetes_conn_id: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        refuse_unknown_names(type(self), kwargs)
        super().__init__(**kwargs)
        owning = parameters.Owning.of(of_task)
        # Not the operator itself: a templated field that held it would be rendered.
        self.of_task = owning.task_id
        own_dag = self.dag_id if self.has_dag() else None  # type: ignore[no-untyped-call]
        self.of_dag = of_dag or (owning.dag_id if owning.dag_id != own_dag else None)
        self.of_run_id = of_run_id
        self.of_map_index = of_map_index
        self.name = name
        self.label_selector = label_selector
        self.namespace = namespace or owning.namespace
        self.until = until
        self.max_failed = max_failed
        self.kubernetes_conn_id = parameters.connection_of(kubernetes_conn_id, owning)
        self.deferrable = deferrable
        parameters.check(self)

    def resolve_template_files(self) -> None:
        """Check that the task is there: called when the DAG is complete."""
        parameters.check_task(self)

    def execute(self, context: Context) -> Any:  # noqa: RET503  defer() does not return
        """Look once; defer if that doesn't settle it. Without `deferrable`, poke as every sensor does."""
        if not self.deferrable:
            return super().execute(context)
        poked = self.poke(context)
        if isinstance(poked, PokeReturnValue):
            return poked.xcom_value
        from airflow_batchjob.sensors.waiting import wait_for
        from airflow_batchjob.triggers.sensor import BatchJobSensorTrigger

        self.defer(
            trigger=BatchJobSensorTrigger(
                kubernetes_conn_id=self.kubernetes_conn_id, wait=wait_for(self, context).to_json_types()
            ),
            method_name=self.resume.__name__,
            timeout=self._time_left(context),
        )

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once."""
        from airflow_batchjob.sensors import waiting

        with self._judged():
            settings, wait = waiting.settings_of(self), waiting.wait_for(self, context)
            seen = asyncio.run(waiting.look_once(settings, wait, log=logger_of(self)))
            if seen is None:
                return False
            result = asyncio.run(waiting.result_for(settings, wait, seen))
            return PokeReturnValue(is_done=True, xcom_value=self._finish(context, seen, result))

    def resume(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Tell how the wait ended. Safe to call twice with one event."""
        from airflow_batchjob.sensors import waiting

        with self._judged():
            seen = waiting.seen_by_trigger(event)
            settings, wait = waiting.settings_of(self), waiting.wait_for(self, context)
            result = asyncio.run(waiting.result_for(settings, wait, seen))
            return self._finish(context, seen, result)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume; skip after the timeout where that was asked for, which Airflow 3.1 leaves out."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise

    def _finish(self, context: Context, seen: Observation, result: dict[str, Any]) -> dict[str, Any]:
        from airflow_batchjob.sensors.waiting import error_for

        if self.do_xcom_push:
            push(context["ti"], result)
        error = error_for(seen)
        if error is not None:
            raise error
        return result

    def _time_left(self, context: Context) -> timedelta:
        seconds = self.timeout
        if self.execution_timeout is not None:
            seconds = min(seconds, self.execution_timeout.total_seconds())
        end = context["ti"].start_date + timedelta(seconds=seconds)
        return max(end - datetime.now(tz=timezone.utc), timedelta(seconds=1))

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Skip in place of failing, where that was asked for."""
        try:
            with no_useless_retries():
                yield
        except JobFailedError as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
