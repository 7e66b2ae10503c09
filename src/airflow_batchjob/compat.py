"""The only module that asks which Airflow this is, and reaches for what has no public name yet.

Each difference says from which version on it can go.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

GONE = "gone"
"""Stands in for a task's state where Airflow has no such task instance (any more)."""

_INCARNATION_KEY = "airflow_batchjob.incarnation"


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
        """Read it from a task instance, of worker or triggerer."""
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index)


def triggers_are_told_of_kills() -> bool:
    """Tell whether triggers have `on_kill` (3.3); before, `cleanup` is all there is."""
    from airflow.triggers.base import BaseTrigger

    return hasattr(BaseTrigger, "on_kill")


def incarnation(context: Context) -> str | None:
    """Return what tells this DAG run from a deleted and re-created one of the same name.

    Random, kept in the task's state store (3.3), which dies with the run. None below 3.3, or where
    the store can't be read: task instance ids and tries must do then.
    """
    store = dict(context).get("task_state_store")
    if store is None:
        return None
    try:
        found = store.get(_INCARNATION_KEY)
        if isinstance(found, str) and found:
            return found
        made = uuid.uuid4().hex
        from airflow.sdk.execution_time.context import NEVER_EXPIRE

        store.set(_INCARNATION_KEY, made, retention=NEVER_EXPIRE)
    except Exception as error:  # noqa: BLE001  # a store that is out of order must not stop the work
        log.warning("No state store for this task (%s): a re-created run of this name can't be told apart", error)
        return None
    return made


async def task_state(task: TaskKey, *, timeout_seconds: float) -> str | None:
    """Ask Airflow for a task instance's state, from a worker or a triggerer, without blocking its loop.

    Returns:
        The state as Airflow spells it ("none" where it has none), `GONE`, or None: no answer.
    """
    from asgiref.sync import sync_to_async

    try:
        states = await asyncio.wait_for(sync_to_async(_states_of_run)(task), timeout_seconds)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is no answer
        log.warning("Airflow does not tell the state of %s: %r", task, error)
        return None
    # Airflow's key for a mapped task instance; the map index was asked for, so no other task is meant.
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


def setting(section: str, option: str) -> str:
    """Return an Airflow setting, "" where it is not given. Read when used, never at import."""
    from airflow.configuration import conf

    return str(conf.get(section, option, fallback="") or "")
