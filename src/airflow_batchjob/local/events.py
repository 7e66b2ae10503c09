"""Events: what the parts of the cluster tell about an object, kept in the store like everything else."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from airflow_batchjob.local.store import Store, format_time

Object = dict[str, Any]

MOST_EVENTS = 5_000  # a cluster keeps an hour's; here the oldest go first, so that memory has a bound

API_VERSIONS = {"Job": "batch/v1"}


class EventRecorder:
    """Writes events; the same said again of the same object only raises the count.

    Args:
        store: Where the events go.
        clock: Gives the time, aware.
        most_events: How many are kept.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        most_events: int = MOST_EVENTS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._most_events = most_events
        self._said: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()

    def record(
        self, about: Object, kind: str, reason: str, message: str, *, component: str, warning: bool = False
    ) -> None:
        """Tell `message` about an object.

        Args:
            about: The object.
            kind: Its kind, e.g. "Pod".
            reason: One word, e.g. "FailedScheduling".
            message: One sentence.
            component: Who tells it, e.g. "kubelet".
            warning: Whether something is wrong.
        """
        metadata = about["metadata"]
        key = (metadata["uid"], reason, message)
        if key in self._said and self._again(key):
            return
        event = _event(about, kind, reason, message, component=component, warning=warning)
        time = format_time(self._clock())
        created = self._store.create("events", {**event, "firstTimestamp": time, "lastTimestamp": time})
        self._said[key] = (created["metadata"]["namespace"], created["metadata"]["name"])
        while len(self._said) > self._most_events:
            _, oldest = self._said.popitem(last=False)
            self._store.delete("events", *oldest)

    def _again(self, key: tuple[str, str, str]) -> bool:
        """Raise the count of an event that is still there."""
        event = self._store.get("events", *self._said[key])
        if event is None:
            return False
        time = format_time(self._clock())
        self._store.update("events", {**event, "count": (event.get("count") or 1) + 1, "lastTimestamp": time})
        self._said.move_to_end(key)
        return True


def _event(about: Object, kind: str, reason: str, message: str, *, component: str, warning: bool) -> Object:
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{secrets.token_hex(8)}",
            "namespace": metadata.get("namespace") or "default",
        },
        "involvedObject": {
            "apiVersion": API_VERSIONS.get(kind, "v1"),
            "kind": kind,
            "namespace": metadata.get("namespace") or "",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "eventTime": None,
        "count": 1,
    }
