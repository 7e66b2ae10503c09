"""When a finished Job has outlived its ttlSecondsAfterFinished, and how it is deleted then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_batchjob.local.controller.facts import format_time, parse_time

Object = dict[str, Any]

FOREGROUND = "foregroundDeletion"


def expires_at(job: Object) -> datetime | None:
    """Return when a finished Job is to be deleted; None where it is not finished or stays."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None:
        return None
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"]) + timedelta(seconds=seconds)
    return None


def foreground_deleted(job: Object, now: datetime) -> Object:
    """Return the Job as a foreground deletion leaves it: it stays until its pods are gone."""
    metadata = job["metadata"]
    if metadata.get("deletionTimestamp"):
        return job
    finalizers = [*(metadata.get("finalizers") or ()), FOREGROUND]
    marks = {
        "finalizers": list(dict.fromkeys(finalizers)),
        "deletionTimestamp": format_time(now),
        "deletionGracePeriodSeconds": 0,
    }
    return {**job, "metadata": {**metadata, **marks}}
