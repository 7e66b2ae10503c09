"""Events as events.k8s.io/v1 names their fields; they are stored as v1 has them."""

from __future__ import annotations

from airflow_batchjob.local.store import Object

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def as_new_event(event: Object) -> Object:
    """Return a v1 Event as an events.k8s.io/v1 one."""
    renamed = {_RENAMED.get(name, name): value for name, value in event.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}
