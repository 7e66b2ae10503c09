"""What is wrong with each parameter by itself, whatever the manifest says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_batchjob.core.capacity.capacity import capacity_problems
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.budget import (
    count_problem,
    share_problem,
    threshold_problems,
    whole_number,
)
from airflow_batchjob.core.request.forms import form_problems
from airflow_batchjob.core.request.policies import SKIP, exit_code_problems
from airflow_batchjob.core.request.spec import NOT_GIVEN, JobSpec
from airflow_batchjob.core.request.typed import literal_problems
from airflow_batchjob.core.sharing.machine import Machine

_COUNTS = {
    "completions": 0,
    "parallelism": 0,
    "retries_per_index": 0,
    "backoff_limit": 0,
    "deadline_seconds": 1,
    "pending_seconds": 1,
}
_SHARES = ("max_failed_indexes", "min_succeeded")


def parameter_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield all that can be said without the manifest: types, ranges, contradictions."""
    yield from form_problems(spec)
    yield from _number_problems(spec)
    if isinstance(spec.exit_codes, Mapping):
        yield from exit_code_problems(spec.exit_codes)
    if isinstance(spec.pod, Mapping):
        yield from literal_problems(spec.pod, "pod")
    yield from _machine_problems(spec)
    if spec.capacity is not None:
        yield from capacity_problems(spec.capacity)
    yield from _contradictions(spec)


def machine_of(spec: JobSpec) -> Machine | None:
    """Return the machine that is asked for.

    Raises:
        SpecError: It is no machine, or one whose name nobody has looked up.
    """
    if spec.machine is None:
        return None
    if isinstance(spec.machine, str):
        if "=" not in spec.machine:
            mend = 'Name one of the connection\'s machines, or write e.g. "cpu=20,memory=101Gi,gpus=1"'
            raise SpecError(Problem("machine", spec.machine, "there is no machine of that name", mend))
        return Machine.parse(spec.machine)
    machine: Any = spec.machine
    if not isinstance(machine, Machine):
        mend = 'Give Machine(cpu=20, memory="101Gi")'
        raise SpecError(Problem("machine", machine, "not a machine", mend))
    if problems := tuple(machine.problems()):
        raise SpecError(*problems)
    return machine


def _number_problems(spec: JobSpec) -> Iterator[Problem]:
    for field, least in _COUNTS.items():
        value = getattr(spec, field)
        if value is not None and (problem := count_problem(field, value, least=least)):
            yield problem
    for field in _SHARES:
        value = getattr(spec, field)
        if value is not None and (problem := share_problem(field, value)):
            yield problem
    ttl = spec.ttl_seconds_after_finished
    if (
        ttl is not NOT_GIVEN
        and ttl is not None
        and (problem := count_problem("ttl_seconds_after_finished", ttl))
    ):
        yield problem


def _machine_problems(spec: JobSpec) -> Iterator[Problem]:
    try:
        machine_of(spec)
    except SpecError as error:
        yield from error.problems


def _contradictions(spec: JobSpec) -> Iterator[Problem]:
    if spec.container_resources and spec.machine is not None:
        why = "the machine's shares replace what a container asks for"
        yield Problem("container_resources", "given", why, "Give it or machine, not both")
    completions = _number(spec.completions)
    if completions:
        yield from threshold_problems(
            completions, max_failed_indexes=spec.max_failed_indexes, min_succeeded=spec.min_succeeded
        )
    if completions is not None and completions > 1 and _skips(spec):
        yield skip_problem(spec, completions)


def skip_problem(spec: JobSpec, completions: int | None) -> Problem:
    """Say why this Job can't be skipped by an exit code."""
    count = "a work queue" if completions is None else f"{completions} completions"
    why = f"one pod can't skip the task for all others ({count})"
    mend = "Use fail_index, or run a Job of one completion"
    return Problem("exit_codes['skip']", list(spec.exit_codes[SKIP]), why, mend)


def _skips(spec: JobSpec) -> bool:
    codes: Any = spec.exit_codes
    return isinstance(codes, Mapping) and bool(codes.get(SKIP))


def _number(value: Any) -> int | None:
    try:
        return whole_number(value)
    except ValueError:
        return None
