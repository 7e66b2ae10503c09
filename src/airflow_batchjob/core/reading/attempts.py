"""Index by index: how many pods it took, how many of them were lost, where the last one ran, for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_batchjob.core.capacity.losses import kind_of, ran_seconds
from airflow_batchjob.core.capacity.marks import LossMark, from_ranges, to_ranges
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.pods import Pod, failures_before, index_of

MOST_SECONDS = 2_000
"""So many indexes have their seconds told; of more the list would be too long for a result."""


def per_index(pods: Iterable[Pod], losses: LossMark | None, now: float) -> dict[str, Mapping[str, Any]]:
    """Return what became of the indexes, as small as it can be said.

    Args:
        pods: Of the Job that ended, as far as they are still there.
        losses: What was counted in this try; pods that were lost are gone.
        now: Epoch seconds.

    Returns:
        `attempts` and `losses`: how many, to the indexes as range text. `capacity`: of the last pod, to the
        indexes. `seconds`: by index, over all its pods that are known; absent above `MOST_SECONDS` indexes.
    """
    lost = from_ranges(losses.counts) if losses is not None else {}
    seconds = losses.seconds_by_index if losses is not None else {}
    attempts: dict[int, int] = {}
    newest: dict[int, Pod] = {}
    for pod in pods:
        index = index_of(pod)
        if index is None:
            continue
        seconds[index] = seconds.get(index, 0.0) + ran_seconds(pod, now)
        attempts[index] = max(attempts.get(index, 0), failures_before(pod) + 1)
        if index not in newest or _created(pod) >= _created(newest[index]):
            newest[index] = pod
    where: dict[str, list[int]] = {}
    for index, pod in newest.items():
        kind = kind_of(pod)
        if kind is not None:
            where.setdefault(kind.value, []).append(index)
    every = {index: attempts.get(index, 1) + lost.get(index, 0) for index in {*attempts, *lost}}
    told: dict[str, Mapping[str, Any]] = {
        "attempts": to_ranges(every),
        "losses": to_ranges(lost),
        "capacity": {kind: str(IndexSet.of(indexes)) for kind, indexes in sorted(where.items())},
    }
    if len(seconds) <= MOST_SECONDS:
        told["seconds"] = {str(index): round(seconds[index], 1) for index in sorted(seconds)}
    return told


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
