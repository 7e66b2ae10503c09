"""The only module that asks which Airflow this is.

Each difference says from which version on it can go.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralError,
        TaskDeferralTimeout,
        TaskDeferred,
    )
    from airflow.sdk.execution_time.context import TaskStateStoreAccessor
else:
    try:
        from airflow.sdk.exceptions import (
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralError,
            TaskDeferralTimeout,
            TaskDeferred,
        )
    except ImportError:  # before 3.2 they live elsewhere
        from airflow.exceptions import (
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralError,
            TaskDeferralTimeout,
            TaskDeferred,
        )

__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "TaskDeferralError",
    "TaskDeferralTimeout",
    "TaskDeferred",
    "incarnation",
    "mask_secret",
    "remember",
    "remembered",
    "remembers",
    "triggers_are_told_of_kills",
]

log = logging.getLogger(__name__)

_INCARNATION_KEY = "airflow_batchjob.incarnation"
_RECORD_KEY = "airflow_batchjob.record"


def mask_secret(value: str, name: str) -> None:
    """Have Airflow hide `value` wherever it shows, if it thinks that `name` tells of a secret."""
    from airflow.sdk import log as airflow_log

    try:
        from airflow.sdk._shared.secrets_masker import should_hide_value_for_key
    except ImportError:  # it lives in another place then, and decides for itself
        airflow_log.mask_secret(value, name)
        return
    if should_hide_value_for_key(name):  # type: ignore[no-untyped-call]  # Airflow's own isn't annotated
        airflow_log.mask_secret(value, name)


def triggers_are_told_of_kills() -> bool:
    """Tell whether triggers have `on_kill` (3.3); before, `cleanup` is all there is."""
    from airflow.triggers.base import BaseTrigger

    return hasattr(BaseTrigger, "on_kill")


def incarnation(context: Context) -> str | None:
    """Return what tells this DAG run from a deleted and re-created one of the same name.

    Random, kept in the task's state store (3.3), which dies with the run. None below 3.3, and where
    the store does not answer: it is not known then, which makes no Job another run's.
    """
    store = _store(context)
    if store is None:
        return None
    from airflow.sdk.execution_time.context import NEVER_EXPIRE

    try:
        found = store.get(_INCARNATION_KEY)
        if isinstance(found, str) and found:
            return found
        made = uuid.uuid4().hex
        store.set(_INCARNATION_KEY, made, retention=NEVER_EXPIRE)
    except Exception as error:  # noqa: BLE001  a store that is out of order must not stop the work
        log.warning("The task's state store does not answer, so a re-created run can't be told: %s", error)
        return None
    return made


def remembers(context: Context) -> bool:
    """Tell whether the task has a state store (3.3): a retry then knows what a Job that is gone had done."""
    return _store(context) is not None


def remembered(context: Context) -> str | None:
    """Return what `remember` kept; None where there is nothing, or no store."""
    store = _store(context)
    if store is None:
        return None
    try:
        found = store.get(_RECORD_KEY)
    except Exception as error:  # noqa: BLE001  as above
        log.warning("The task's state store does not answer, so only Jobs that are there count: %s", error)
        return None
    return found if isinstance(found, str) and found else None


def remember(context: Context, text: str) -> None:
    """Keep `text` in the task's state store for later tries; nothing where there is no store."""
    store = _store(context)
    if store is None:
        return
    from airflow.sdk.execution_time.context import NEVER_EXPIRE

    try:
        store.set(_RECORD_KEY, text, retention=NEVER_EXPIRE)
    except Exception as error:  # noqa: BLE001  as above
        log.warning("The task's state store did not take what was done, the Job alone says it: %s", error)


def _store(context: Context) -> TaskStateStoreAccessor | None:
    store = dict(context).get("task_state_store")
    if store is None:
        return None
    from airflow.sdk.execution_time.context import TaskStateStoreAccessor

    return store if isinstance(store, TaskStateStoreAccessor) else None
