"""How far each index has come: the Job's word first, then that of its newest pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_batchjob.core.reading.causes import cause_of, shows_failure
from airflow_batchjob.core.reading.pods import (
    Lifecycle,
    Pod,
    failures_before,
    index_of,
    lifecycle_of,
    losses_before,
)
from airflow_batchjob.core.reading.status import JobStatus, Phase

_EPOCH = datetime.fromtimestamp(0, tz=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """One index: how far it has come, in which attempt, where, and why its latest failure came."""

    index: int
    lifecycle: Lifecycle
    attempts: int = 0  # pods so far, as many as are known; 0: none yet, or they are gone
    pod: str = ""
    node: str = ""
    reason: str = ""


def state_of(index: int, status: JobStatus, pods: Sequence[Pod]) -> IndexState:
    """Return the state of one index.

    Args:
        index: Which.
        status: Of its Job; what it says of completed and failed indexes is final.
        pods: The pods of this index that are still there.
    """
    newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp or _EPOCH, default=None)
    failed = [pod for pod in pods if shows_failure(pod)]
    last_failed = max(failed, key=lambda pod: pod.metadata.creation_timestamp or _EPOCH, default=None)
    return IndexState(
        index=index,
        lifecycle=_lifecycle(index, status, newest),
        attempts=max(len(pods), _attempt(newest) if newest else 0),
        pod=newest.name if newest else "",
        node=newest.spec.node_name if newest else "",
        reason=cause_of(last_failed).words if last_failed else "",
    )


def states_of(status: JobStatus, pods: Iterable[Pod]) -> dict[int, IndexState]:
    """Return the states of the indexes that these pods belong to, in order; the others are queued or over."""
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        index = index_of(pod)
        if index is not None:
            by_index.setdefault(index, []).append(pod)
    return {index: state_of(index, status, by_index[index]) for index in sorted(by_index)}


def _lifecycle(index: int, status: JobStatus, newest: Pod | None) -> Lifecycle:
    if index in status.succeeded_indexes:
        return Lifecycle.SUCCEEDED
    if index in status.failed_indexes:
        return Lifecycle.FAILED
    if status.phase.is_final:
        # Killed or never begun: nobody knows how its work would have ended.
        return Lifecycle.STOPPED
    if newest is None:
        return Lifecycle.STOPPED if status.phase is Phase.STOPPING else Lifecycle.QUEUED
    found = lifecycle_of(newest)
    is_replaced = found in {Lifecycle.FAILED, Lifecycle.STOPPED} and status.phase is not Phase.STOPPING
    return Lifecycle.QUEUED if is_replaced else found


def _attempt(pod: Pod) -> int:
    return failures_before(pod) + losses_before(pod) + 1
