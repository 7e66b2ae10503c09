"""What Airflow is asked and told about a task instance, from a worker or a triggerer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from airflow_batchjob.compat import AirflowFailException
from airflow_batchjob.core.errors import BatchJobError

log = logging.getLogger(__name__)

GONE = "gone"
"""Stands in for a task's state where Airflow has no such task instance (any more)."""

ENDED_STATES = frozenset({"success", "failed", "skipped", "removed", GONE})
"""States in which nobody will come back for a task's Job."""

FINAL_STATES = ENDED_STATES | {"upstream_failed"}


class TaskKey(msgspec.Struct, frozen=True):
    """Which task instance, of whatever try."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        index = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{index} of run {self.run_id}"

    @classmethod
    def of(cls, ti: Any) -> TaskKey:
        """Read it from a task instance as worker and triggerer have it."""
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index)


async def task_state(task: TaskKey, *, timeout_seconds: float) -> str | None:
    """Ask Airflow for a task instance's state, without blocking the event loop.

    Returns:
        The state as Airflow spells it ("none" where it has none), `GONE`, or None: no answer.
    """
    from asgiref.sync import sync_to_async

    asking = asyncio.ensure_future(sync_to_async(_states_of_run)(task))
    # Not `wait_for`: it would wait for the thread, whose question can't be taken back.
    done, _ = await asyncio.wait({asking}, timeout=timeout_seconds)
    if not done:
        asking.add_done_callback(lambda late: late.cancelled() or late.exception())
        log.warning("Airflow does not tell the state of %s within %s s", task, timeout_seconds)
        return None
    if (error := asking.exception()) is not None:
        log.warning("Airflow does not tell the state of %s: %r", task, error)
        return None
    states = asking.result()
    # Airflow's key for a mapped task instance. The map index was asked for, so no other task is meant.
    key = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    if key not in states:
        return GONE
    return str(getattr(states[key], "value", states[key]) or "none")


def _states_of_run(task: TaskKey) -> Mapping[str, Any]:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    answer = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], map_index=task.map_index, run_ids=[task.run_id]
    )
    states: Mapping[str, Any] = answer.get(task.run_id) or {}
    return states


async def return_value(task: TaskKey) -> Any:
    """Return what a task returned, or None where it returned nothing."""
    from airflow.sdk.execution_time.xcom import XCom
    from asgiref.sync import sync_to_async

    return await sync_to_async(XCom.get_one)(
        key="return_value",
        dag_id=task.dag_id,
        task_id=task.task_id,
        run_id=task.run_id,
        map_index=task.map_index,
    )


def logger_of(owner: Any) -> logging.Logger:
    """Return an operator's or trigger's logger: of Airflow's own type, with the standard one's methods."""
    return cast("logging.Logger", owner.log)


def push(ti: Any, values: Mapping[str, Any]) -> None:
    """Push each value as an XCom of its own key."""
    for key, value in values.items():
        ti.xcom_push(key=key, value=value)


@contextmanager
def no_useless_retries() -> Iterator[None]:
    """Fail the task for good where trying again can't help; let the rest through."""
    try:
        yield
    except BatchJobError as error:
        if error.retryable:
            raise
        raise AirflowFailException(str(error)) from error
