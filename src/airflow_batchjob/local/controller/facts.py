"""What the Job controller reads off a pod: read once per change of the pod, not once per sync."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

Object = dict[str, Any]

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

_USUAL_LENGTH = len("2024-05-06T07:08:09Z")
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod of a Job."""

    uid: str
    name: str
    phase: str
    deleting: bool
    """It has a deletionTimestamp."""
    tracked: bool
    """The tracking finalizer is on it: the controller has not done with it."""
    index: int | None
    """None where the annotation is absent or no number."""
    ready: bool
    restarts: int
    """Of all containers and init containers together."""
    failure_count: int
    ignored_count: int
    finished_at: datetime
    """Means something for a pod that has ended or is being deleted."""
    exits: tuple[tuple[str, int], ...]
    """Container and exit code where it is not 0: containers first, then init containers."""
    conditions: tuple[tuple[str, str], ...]
    """Type and status."""
    victim_order: tuple[float, ...]
    """The lower, the sooner it goes when there are too many pods."""

    @property
    def active(self) -> bool:
        """Neither ended nor being deleted."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Being deleted and not yet ended."""
        return self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def relevant(self) -> bool:
        """Whether a sync can still depend on it; a finished and counted pod is history."""
        return self.tracked or self.phase not in ("Succeeded", "Failed")


def read_pod(pod: Object) -> PodFacts:
    """Read a pod as the store has it."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    conditions = status.get("conditions") or ()
    containers = status.get("containerStatuses") or ()
    inits = status.get("initContainerStatuses") or ()
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    is_ready = ready is not None and ready["status"] == "True"
    phase = status.get("phase") or "Pending"
    restarts = [s.get("restartCount") or 0 for s in (*containers, *inits)]
    created = parse_time(metadata["creationTimestamp"])
    return PodFacts(
        uid=metadata["uid"],
        name=metadata["name"],
        phase=phase,
        deleting=bool(metadata.get("deletionTimestamp")),
        tracked=TRACKING_FINALIZER in (metadata.get("finalizers") or ()),
        index=_number(annotations.get(INDEX)),
        ready=is_ready,
        restarts=sum(restarts),
        failure_count=_number(annotations.get(FAILURE_COUNT)) or 0,
        ignored_count=_number(annotations.get(IGNORED_COUNT)) or 0,
        finished_at=_finish_time(metadata, containers, ready, created),
        exits=tuple(_exits(containers)) + tuple(_exits(inits)),
        conditions=tuple((c["type"], c["status"]) for c in conditions),
        victim_order=(
            float(bool(spec.get("nodeName"))),
            float(_PHASE_RANK.get(phase, 2)),
            float(is_ready),
            -_seconds(ready.get("lastTransitionTime")) if is_ready and ready else 0.0,
            -float(max(restarts, default=0)),
            -created.timestamp(),
        ),
    )


def parse_time(text: str) -> datetime:
    """Read a time as the API writes it."""
    if len(text) == _USUAL_LENGTH and text[-1] == "Z":  # by hand: strptime takes 20 times as long
        year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
        hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    whole, dot, fraction = text.rstrip("Z").partition(".")
    moment = datetime.fromisoformat(whole if dot else text.replace("Z", "+00:00"))
    if dot:
        moment = moment.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def format_time(moment: datetime) -> str:
    """Write a time as the API does, cut to the second."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _exits(statuses: Any) -> list[tuple[str, int]]:
    found = []
    for status in statuses:
        ended = (status.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            found.append((status["name"], int(ended["exitCode"])))
    return found


def _finish_time(metadata: Object, containers: Any, ready: Object | None, created: datetime) -> datetime:
    """Return when the pod ended. The order of the sources is the controller's own."""
    ends: list[str] = [
        ((s.get("state") or {}).get("terminated") or {}).get("finishedAt") or "" for s in containers
    ]
    if ends and all(ends):
        return max(parse_time(end) for end in ends)
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return parse_time(metadata["deletionTimestamp"]) - grace
    return created


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _seconds(text: str | None) -> float:
    return parse_time(text).timestamp() if text else 0.0
