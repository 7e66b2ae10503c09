"""A sensor's parameters, checked when the DAG is parsed, and what an operator given as `of_task` tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.early import is_templated
from airflow_batchjob.hooks.batchjob import DEFAULT_CONNECTION
from airflow_batchjob.supervisor.observe import Aim

if TYPE_CHECKING:
    from airflow_batchjob.sensors.batchjob import BatchJobSensor

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Owning:
    """What an operator given as `of_task` tells: its id, and where its Jobs are.

    A task's id given as text tells no more than itself.
    """

    task_id: Any
    dag_id: str | None = None
    namespace: str | None = None
    kubernetes_conn_id: str | None = None

    @classmethod
    def of(cls, given: Any) -> Owning:
        """Read it from an operator, mapped or not, from its output, or from text."""
        operator = getattr(given, "operator", given)
        if not hasattr(operator, "task_id"):
            return cls(task_id=given)
        has_dag = getattr(operator, "has_dag", None)
        return cls(
            task_id=operator.task_id,
            dag_id=operator.dag_id if has_dag is not None and has_dag() else None,
            namespace=_parameter(operator, "namespace"),
            kubernetes_conn_id=_parameter(operator, "kubernetes_conn_id"),
        )


def _parameter(operator: Any, name: str) -> str | None:
    shared = getattr(operator, "partial_kwargs", None)  # of a mapped operator
    value = shared.get(name) if isinstance(shared, Mapping) else getattr(operator, name, None)
    return value if isinstance(value, str) else None


def check(given: BatchJobSensor) -> None:
    """Refuse what is surely wrong, whatever templates will say.

    Raises:
        SpecError: Every problem at once.
    """
    problems = list(_problems(given))
    if problems:
        raise SpecError(*problems)


def check_task(given: BatchJobSensor) -> None:
    """Refuse a task that the sensor's own DAG does not have. An older run may have had it.

    Raises:
        SpecError: Names the tasks that there are.
    """
    if not given.has_dag():  # type: ignore[no-untyped-call]
        return
    dag, wanted = given.dag, given.of_task
    elsewhere = given.of_run_id is not None or given.of_dag not in (None, dag.dag_id)
    if not isinstance(wanted, str) or elsewhere or is_templated(wanted) or wanted in dag.task_dict:
        return
    others = sorted(task_id for task_id in dag.task_dict if task_id != given.task_id)
    known = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
    why = f"there is no such task in DAG {dag.dag_id!r}; there are: {known or 'no others'}"
    raise SpecError(
        Problem("of_task", wanted, why, "Give the operator itself, or the full id, with task groups")
    )


def _problems(given: BatchJobSensor) -> Iterator[Problem]:
    ways = {name: getattr(given, name) for name in ("of_task", "name", "label_selector")}
    named = {name: value for name, value in ways.items() if value}
    if len(named) != 1:
        why = "several of them are given" if named else "none of them is given"
        yield Problem("of_task, name or label_selector", named or None, why, "Give one of the three")
    if given.of_dag is not None and given.of_run_id is None:
        why = "a run of this DAG's run id rarely exists there"
        yield Problem("of_dag", given.of_dag, why, "Give of_run_id, too")
    for name in ("of_dag", "of_run_id"):
        if getattr(given, name) is not None and given.of_task is None:
            yield Problem(
                name, getattr(given, name), "it says where of_task is, which is not given", "Give of_task"
            )
    deferrable: object = given.deferrable
    if not isinstance(deferrable, bool):
        yield Problem("deferrable", deferrable, "neither true nor false", "Write True or False")
    if not is_templated(given.of_map_index) and _number(given.of_map_index) is None:
        yield Problem("of_map_index", given.of_map_index, "not a map index", "Give a number; -1: not mapped")
    known = {name: getattr(given, name) for name in ("until", "max_failed")}
    yield from Aim(**{name: value for name, value in known.items() if not is_templated(value)}).problems()


def connection_of(given: str | None, owning: Owning) -> str:
    """Return the connection: as given, else the owning operator's, else the default one."""
    return given or owning.kubernetes_conn_id or DEFAULT_CONNECTION


def _number(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else int(value)
    except (TypeError, ValueError):
        return None
