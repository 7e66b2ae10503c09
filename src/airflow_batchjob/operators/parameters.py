"""The operator's parameters as a `JobSpec`, and what is wrong with those that Airflow alone knows of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.event import OnFinish
from airflow_batchjob.core.request.early import UNKNOWN, early_problems, is_templated
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.telling.log_choice import read_log_choice
from airflow_batchjob.operators.rendering import is_file_name

if TYPE_CHECKING:
    from airflow_batchjob.core.capacity.capacity import Capacity
    from airflow_batchjob.core.sharing.machine import Machine
    from airflow_batchjob.operators.batchjob import BatchJobOperator

SPEC_FIELDS = tuple(field.name for field in fields(JobSpec))

_AGAIN = ("rest", "all")  # of core.identity, whose import a DAG file would pay for
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "on_finish": tuple(choice.value for choice in OnFinish),
    "on_retry": _AGAIN,
    "on_clear": _AGAIN,
}
_FLAGS = ("deferrable", "stop_when_succeeded")


def spec_of(
    given: BatchJobOperator, *, machine: Machine | None = None, capacity: Capacity | None = None
) -> JobSpec:
    """Return what the operator asks of a Job; nothing else carries parameters further.

    Args:
        given: The operator, as it stands: before or after rendering.
        machine: In place of the machine's name.
        capacity: In place of what was asked, with the cluster's profiles.
    """
    values = {name: getattr(given, name) for name in SPEC_FIELDS}
    asked = {name: value for name, value in values.items() if value is not None}
    if values["ttl_seconds_after_finished"] is None:  # None is an answer here: never
        asked["ttl_seconds_after_finished"] = None
    if machine is not None:
        asked["machine"] = machine
    if capacity is not None:
        asked["capacity"] = capacity
    return JobSpec(**asked)


def check(given: BatchJobOperator, *, manifest: str | None = None) -> None:
    """Refuse what is surely wrong, whatever templates will say.

    Args:
        given: The operator as written in the DAG.
        manifest: The text of the manifest's file, once it can be read.

    Raises:
        SpecError: Every problem at once.
    """
    problems = [*airflow_problems(given), *job_problems(given, manifest=manifest)]
    if problems:
        raise SpecError(*problems)


def job_problems(given: BatchJobOperator, *, manifest: str | None = None) -> tuple[Problem, ...]:
    """Return what is surely wrong with the Job that is asked for; arguments as for `check`."""
    spec = spec_of(given)
    if manifest is not None:
        spec = replace(spec, manifest=manifest)
    elif is_file_name(spec.manifest):  # sought when the DAG is complete, and its folders are known
        spec = replace(spec, manifest=UNKNOWN)
    return early_problems(spec)


def airflow_problems(given: BatchJobOperator) -> Iterator[Problem]:
    """Yield what is wrong on Airflow's side: choices, and values that nothing would render."""
    for name in (*SPEC_FIELDS, *_CHOICES, *_FLAGS, "logs", "log_containers"):
        value = getattr(given, name)
        if name not in given.template_fields and is_templated(value):
            yield Problem(
                name, value, "it is not templated", "Give a value that is known when the DAG is parsed"
            )
        elif name in _CHOICES and value not in _CHOICES[name]:
            yield Problem(name, value, "no such choice", f"Write one of {_listed(_CHOICES[name])}")
        elif name in _FLAGS and not isinstance(value, bool):
            yield Problem(name, value, "neither true nor false", "Write True or False")
    yield from _log_problems(given)
    conn_id: object = given.kubernetes_conn_id
    if not is_templated(conn_id) and (not isinstance(conn_id, str) or not conn_id.strip()):
        mend = 'Name a connection, or leave it out for "kubernetes_default"'
        yield Problem("kubernetes_conn_id", conn_id, "not the name of a connection", mend)


def _log_problems(given: BatchJobOperator) -> Iterator[Problem]:
    logs: object = given.logs
    try:
        read_log_choice(logs if isinstance(logs, str) else repr(logs), None)
    except SpecError as error:
        yield from error.problems
    containers: object = given.log_containers
    is_list = isinstance(containers, list | tuple) and all(isinstance(name, str) for name in containers)
    if containers is not None and not is_list:
        yield Problem("log_containers", containers, "not a list of names", 'Give e.g. ["main"]')


def _listed(choices: tuple[str, ...]) -> str:
    return ", ".join(f'"{choice}"' for choice in choices)
