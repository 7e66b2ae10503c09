"""From a `JobSpec` to the batch/v1 object that is sent, and the thresholds that it is judged by.

A parameter given overrides the manifest, one not given changes nothing in it. The exceptions leave a
note each: the TTL, a backoffLimit beside budgets per index, what the server wrote into an export.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from airflow_batchjob.core.capacity.spot_rules import set_capacity
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.identity.marks import TTL
from airflow_batchjob.core.request.budget import Thresholds, whole_number
from airflow_batchjob.core.request.draft import INDEXED, Draft
from airflow_batchjob.core.request.forms import usable
from airflow_batchjob.core.request.limits import set_limits, thresholds_of
from airflow_batchjob.core.request.loading import API_VERSION, KIND, check_job, load_manifest, strip_export
from airflow_batchjob.core.request.merge import plain, unmet_items
from airflow_batchjob.core.request.parameters import parameter_problems
from airflow_batchjob.core.request.policies import SKIP, read_exit_codes
from airflow_batchjob.core.request.spec import NOT_GIVEN, JobSpec
from airflow_batchjob.core.request.template import build_pod
from airflow_batchjob.core.request.typed import as_text, literal_problems, settle
from airflow_batchjob.core.request.variables import substitute, unused_variables
from airflow_batchjob.core.rules.fields import JOB_SHAPE, key_problems, shape_problems
from airflow_batchjob.core.rules.job_rules import name_problems
from airflow_batchjob.core.rules.validation import manifest_problems, once_each

__all__ = ["Built", "build", "load_manifest"]

SENT_TTL_SECONDS = 7 * 24 * 3600
"""An ended Job stays at least this long, until its end has been reported."""

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A Job, ready for its identity (`core.identity.names`), and what the supervisor needs beside it.

    Attributes:
        manifest: The batch/v1 object. `metadata.name` is the stem, `metadata.namespace` is there
            where the parameter or the manifest names one.
        thresholds: What it is judged by.
        notes: What was done without being asked for, in words.
        stem: Readable part of the Job's name.
        namespace: Of the parameter, else of the manifest; None: the connection's.
        container: Name of the container that parameters act on.
        nothing_to_do: No completions: submit nothing, skip the task.
        skip_exit_codes: The Job ends by a FailJob rule when `container` exits with one of these;
            the task is skipped then. The condition's message names container and code.
        ttl_seconds_after_finished: As asked or in the manifest; None: ours.
        ttl_left_out: `ttl_seconds_after_finished=None` was asked for.
    """

    manifest: dict[str, Any]
    thresholds: Thresholds
    notes: tuple[str, ...]
    stem: str
    namespace: str | None
    container: str
    nothing_to_do: bool = False
    skip_exit_codes: tuple[int, ...] = ()
    ttl_seconds_after_finished: int | None = None
    ttl_left_out: bool = False


def build(spec: JobSpec, *, default_name: str) -> Built:
    """Return the Job that `spec` asks for; `spec` and what it holds stay as they are.

    Args:
        spec: With all templates rendered.
        default_name: Stem of the name where neither a parameter nor the manifest gives one.

    Raises:
        SpecError: With every problem at once, under the names that the author wrote.
    """
    problems: list[Problem] = []
    given = _plain(spec, problems)
    problems += parameter_problems(given)
    asked = usable(given)
    problems += unmet_items(given.pod, "pod")
    try:
        # What is built of these would be full of problems that aren't there.
        if asked is None or any(unmet_items(asked.pod, "pod")):
            raise SpecError  # noqa: TRY301 - with what was found so far
        draft = _begin(asked)
    except SpecError as error:
        raise SpecError(*once_each([*problems, *error.problems], {})) from error
    certain = tuple(draft.problems)
    container = build_pod(draft, asked)
    set_limits(draft, asked, container)
    _note_own_index(draft)
    _set_marks(draft, asked)
    set_capacity(draft, asked)
    ttl = _set_ttl(draft, asked)
    stem = _set_name(draft, asked, default_name)
    draft.resources_known &= asked.container_resources == given.container_resources
    found = [*draft.problems, *manifest_problems(draft.job, resources_known=draft.resources_known)]
    if draft.is_incomplete:
        found = [problem for problem in found if problem in certain or "${" not in str(problem.value)]
    if problems or found:
        raise SpecError(*once_each([*problems, *found], draft.names))
    return Built(
        manifest=draft.job,
        thresholds=thresholds_of(draft, asked),
        notes=tuple(draft.notes),
        stem=stem,
        namespace=draft.metadata.get("namespace"),
        container=container,
        nothing_to_do=draft.completions == 0,
        skip_exit_codes=read_exit_codes(asked.exit_codes).get(SKIP, ()),
        ttl_seconds_after_finished=ttl,
        ttl_left_out=asked.ttl_seconds_after_finished is None,
    )


def _plain(spec: JobSpec, problems: list[Problem]) -> JobSpec:
    # Models of kubernetes.client and Airflow's Secret may stand wherever a mapping may.
    empty = JobSpec()
    # None is "not given" everywhere but where it means "never".
    taken: dict[str, Any] = {
        field.name: getattr(empty, field.name)
        for field in fields(JobSpec)
        if getattr(spec, field.name) is None and field.name != "ttl_seconds_after_finished"
    }
    for name in (
        "manifest",
        "env",
        "env_from",
        "container_resources",
        "pod",
        "image_pull_secrets",
        "tolerations",
    ):
        try:
            taken[name] = plain(taken.get(name, getattr(spec, name)), name)
        except SpecError as error:
            problems += error.problems
            taken[name] = getattr(empty, name)
    return replace(spec, **taken)


def _begin(asked: JobSpec) -> Draft:
    if asked.manifest is None:
        return Draft(
            job={"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": {}}, from_parameters=True
        )
    partial = asked.image is not None
    if isinstance(asked.manifest, str):
        whole = load_manifest(asked.manifest, partial=partial)
    else:
        whole = check_job(asked.manifest, partial=partial)
    loaded, gone = strip_export(whole)
    problems = list(literal_problems(loaded, ""))
    is_incomplete = False
    try:
        loaded = substitute(loaded, asked.variables)
    except SpecError as error:
        problems += error.problems
        is_incomplete = True
    unused = unused_variables(whole, asked.variables)
    job = settle(loaded)
    if misshapen := [*key_problems(loaded, ""), *shape_problems(job, JOB_SHAPE, "")]:
        raise SpecError(*problems, *misshapen)
    draft = Draft(job=job, from_parameters=False, problems=problems, is_incomplete=is_incomplete)
    if unused:
        draft.notes.append(f"variables that nothing in the manifest refers to: {', '.join(unused)}")
    if gone:
        draft.notes.append(f"left out, since the server and its tools write it: {', '.join(gone)}")
    return draft


def _note_own_index(draft: Draft) -> None:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    for container in draft.pod.get("containers") or () if draft.mode == INDEXED else ():
        if any(
            entry.get("name") == INDEX_VARIABLE and "value" in entry for entry in container.get("env") or ()
        ):
            draft.notes.append(
                f"container {container.get('name')!r} sets {INDEX_VARIABLE} itself: Kubernetes leaves it "
                "alone, so every index sees the same one"
            )


def _set_marks(draft: Draft, asked: JobSpec) -> None:
    for field, given in (("labels", asked.labels), ("annotations", asked.annotations)):
        if not given:
            continue
        texts = {str(key): as_text(value) for key, value in given.items()}
        for path, metadata in (
            ("metadata", draft.metadata),
            ("spec.template.metadata", draft.template_metadata),
        ):
            metadata[field] = {**(metadata.get(field) or {}), **texts}
            draft.names |= {f"{path}.{field}[{key!r}]": f"{field}[{key!r}]" for key in texts}


def _set_ttl(draft: Draft, asked: JobSpec) -> int | None:
    """Return the TTL that holds once the end is reported; None: ours, or none at all."""
    own, given = draft.spec.get("ttlSecondsAfterFinished"), asked.ttl_seconds_after_finished
    if given is None:
        if draft.spec.pop("ttlSecondsAfterFinished", None) is not None:
            draft.notes.append(f"the manifest's ttlSecondsAfterFinished ({own}) is left out, as asked")
        return None
    field = "ttlSecondsAfterFinished"
    if given is not NOT_GIVEN:
        draft.put(field, given, "ttl_seconds_after_finished")
    wanted = draft.spec.get(field)
    if wanted is None:
        draft.spec[field] = SENT_TTL_SECONDS
        draft.notes.append("ttlSecondsAfterFinished is seven days until the end is reported")
        return None
    try:
        seconds = whole_number(wanted)
    except ValueError:
        return None  # validation names it
    if 0 <= seconds < SENT_TTL_SECONDS:
        draft.spec[field] = SENT_TTL_SECONDS
        draft.metadata["annotations"] = {**(draft.metadata.get("annotations") or {}), TTL: str(seconds)}
        draft.notes.append(
            f"ttlSecondsAfterFinished is sent as seven days; {seconds} s hold from when the end is reported"
        )
    return seconds


def _set_name(draft: Draft, asked: JobSpec, default_name: str) -> str:
    metadata = draft.metadata
    generated = str(metadata.pop("generateName", None) or "").rstrip("-.")
    own = str(metadata.get("name") or generated)
    if asked.namespace is not None:
        metadata["namespace"] = asked.namespace
        draft.names["metadata.namespace"] = "namespace"
    given = asked.name if isinstance(asked.name, str) else own
    if given:
        field = "name" if given == asked.name else "metadata.name"
        indexed = draft.mode == INDEXED
        draft.problems.extend(name_problems(field, given, completions=draft.completions, indexed=indexed))
    metadata["name"] = given or default_name
    return str(metadata["name"])
