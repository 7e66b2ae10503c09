"""The conditions of a Job: which are there, and how one is added."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from airflow_batchjob.local.controller.facts import format_time

Object = dict[str, Any]
Conditions = list[Object]


class Outcome(str, Enum):
    """How a Job ends."""

    COMPLETE = "Complete"
    FAILED = "Failed"

    @property
    def announced_by(self) -> str:
        """The condition that tells of it while pods still terminate."""
        return "SuccessCriteriaMet" if self is Outcome.COMPLETE else "FailureTarget"


@dataclass(frozen=True, slots=True)
class Finish:
    """The decision that a Job ends, and why."""

    outcome: Outcome
    reason: str
    message: str


def holds(job: Object, kind: str) -> bool:
    """Return whether the Job has this condition with status True."""
    return _find(_of(job), kind, "True") is not None


def is_finished(job: Object) -> bool:
    """Return whether the Job is Complete or Failed: it will never change again."""
    return holds(job, "Complete") or holds(job, "Failed")


def announced(job: Object) -> Finish | None:
    """Return the decision that an earlier sync has written, if any."""
    for outcome in Outcome:
        found = _find(_of(job), outcome.announced_by, "True")
        if found is not None:
            return Finish(outcome, found.get("reason") or "", found.get("message") or "")
    return None


def with_condition(conditions: Conditions, kind: str, finish: Finish, now: datetime) -> Conditions:
    """Return the conditions with one more that holds, unless it is there."""
    if _find(conditions, kind, "True") is not None:
        return conditions
    return [*conditions, _condition(kind, "True", finish.reason, finish.message, now)]


def with_suspension(conditions: Conditions, suspended: bool, now: datetime) -> Conditions:  # noqa: FBT001
    """Return the conditions with Suspended True or False; one that was never True isn't added as False."""
    status = "True" if suspended else "False"
    was = _find(conditions, "Suspended", None)
    if (was is None and not suspended) or (was is not None and was["status"] == status):
        return conditions
    reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    new = _condition("Suspended", status, reason, message, now)
    return [*conditions, new] if was is None else [new if c is was else c for c in conditions]


def _condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    time = format_time(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": time,
        "lastTransitionTime": time,
    }


def _of(job: Object) -> Conditions:
    return (job.get("status") or {}).get("conditions") or []


def _find(conditions: Conditions, kind: str, status: str | None) -> Object | None:
    return next((c for c in conditions if c["type"] == kind and status in (None, c["status"])), None)
