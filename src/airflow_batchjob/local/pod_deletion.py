"""How a pod's deletion begins: with the time it is given to end; a pod that runs nowhere goes at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_batchjob.local.store import Store, format_time

Object = dict[str, Any]

DEFAULT_GRACE_SECONDS = 30
ENDED = ("Succeeded", "Failed")


def begin_deletion(
    store: Store,
    pod: Object,
    now: datetime,
    *,
    grace_seconds: int | None = None,
    changes: Object | None = None,
) -> None:
    """Mark a pod as being deleted; the agent of its node ends it, and the store then removes it.

    Args:
        store: Where the pod is.
        pod: As stored.
        now: The time, aware.
        grace_seconds: Time to end; None for the pod's own. A second deletion can only shorten it.
        changes: Status fields to write with it.
    """
    metadata = pod["metadata"]
    grace = grace_seconds
    if grace is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ENDED:
        grace = 0
    if metadata.get("deletionTimestamp") and grace >= (metadata.get("deletionGracePeriodSeconds") or 0):
        return
    marks = {
        "deletionTimestamp": format_time(now + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }
    status = {**(pod.get("status") or {}), **(changes or {})}
    store.update("pods", {**pod, "metadata": {**metadata, **marks}, "status": status})
