"""One look at a Job: its pods sorted by what they mean, its indexes, and what the limits count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_batchjob.local.controller import backoff
from airflow_batchjob.local.controller.facts import PodFacts
from airflow_batchjob.local.controller.failure_policy import Action, match_policy
from airflow_batchjob.local.controller.intervals import Intervals
from airflow_batchjob.local.controller.model import Memory

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a sync decides on."""

    job: Object
    now: datetime
    memory: Memory
    pods: Sequence[PodFacts]
    active: list[PodFacts]
    terminating: list[PodFacts]
    succeeded: list[PodFacts]
    """Newly finished: not in the status yet."""
    failed: list[PodFacts]
    """Newly failed: not in the status yet."""
    failures: int
    """What ``backoffLimit`` is held against."""
    succeeded_count: int
    """Indexes, or pods of a Job without indexes."""
    completed: Intervals
    """With the newly succeeded; empty without indexes."""
    failed_indexes: Intervals
    delayed: dict[int, PodFacts]
    """The last failed pod of each index that will run again; it hands its counts on to the next."""

    @property
    def spec(self) -> Object:
        spec: Object = self.job["spec"]
        return spec

    @property
    def status(self) -> Object:
        return self.job.get("status") or {}

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))


def take_look(job: Object, pods: Sequence[PodFacts], memory: Memory, now: datetime) -> Look:
    """Sort out what there is. `pods` may leave out those that have ended and are no longer tracked."""
    spec, status = job["spec"], job.get("status") or {}
    indexed, per_index = is_indexed(job), spec.get("backoffLimitPerIndex") is not None
    uncounted = status.get("uncountedTerminatedPods") or {}
    known = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
    fresh = [p for p in pods if p.tracked and p.uid not in known and (not indexed or in_range(job, p))]
    succeeded = [p for p in fresh if p.phase == "Succeeded"]
    failed = [p for p in fresh if counts_as_failed(job, p)]
    active = [p for p in pods if p.active]
    completed, failed_indexes = _index_sets(job, memory)
    if indexed:
        completed = completed.add(p.index for p in succeeded if p.index is not None)
        succeeded_count = len(completed)
        failed_indexes = failed_indexes.add(p.index for p in failed if _fails_index(job, p))  # type: ignore[misc]
    else:
        succeeded_count = (
            (status.get("succeeded") or 0) + len(succeeded) + len(uncounted.get("succeeded") or ())
        )
    return Look(
        job=job,
        now=now,
        memory=backoff.remember(memory, succeeded, failed),
        pods=pods,
        active=active,
        terminating=[p for p in pods if p.terminating],
        succeeded=succeeded,
        failed=failed,
        failures=(status.get("failed") or 0)
        + sum(match_policy(job, p).counts for p in failed)
        + len(uncounted.get("failed") or ()),
        succeeded_count=succeeded_count,
        completed=completed,
        failed_indexes=failed_indexes,
        delayed=_delayed(job, failed, active, completed) if per_index else {},
    )


def is_indexed(job: Object) -> bool:
    """Return whether pods have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def in_range(job: Object, pod: PodFacts) -> bool:
    """Return whether the pod has an index that the Job (still) has."""
    return pod.index is not None and pod.index < job["spec"]["completions"]


def replaces_only_failed(job: Object) -> bool:
    """Return whether a terminating pod keeps its place until it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def counts_as_failed(job: Object, pod: PodFacts) -> bool:
    """Return whether a pod is a failure, be it that its deletion has begun."""
    if pod.phase == "Failed":
        return True
    return pod.deleting and pod.phase != "Succeeded" and not replaces_only_failed(job)


def _index_sets(job: Object, memory: Memory) -> tuple[Intervals, Intervals]:
    if not is_indexed(job):
        return Intervals(), Intervals()
    status, limit = job.get("status") or {}, job["spec"]["completions"]
    return (
        _read(status.get("completedIndexes") or "", memory.completed, limit),
        _read(status.get("failedIndexes") or "", memory.failed, limit),
    )


def _read(text: str, known: Intervals, limit: int) -> Intervals:
    # Someone else may have written the status, and completions may have shrunk.
    if str(known) == text and (not known.ranges or known.ranges[-1][1] < limit):
        return known
    return Intervals.parse(text, limit)


def _fails_index(job: Object, pod: PodFacts) -> bool:
    limit = job["spec"].get("backoffLimitPerIndex")
    if limit is None:
        return False
    match = match_policy(job, pod)
    return match.action is Action.FAIL_INDEX or (match.counts and pod.failure_count >= limit)


def _delayed(
    job: Object, failed: list[PodFacts], active: list[PodFacts], completed: Intervals
) -> dict[int, PodFacts]:
    running = {p.index for p in active}
    last: dict[int, PodFacts] = {}
    for pod in failed:
        index = pod.index
        if index is None or index in running or index in completed or _fails_index(job, pod):
            continue
        other = last.get(index)
        if other is None or _attempt(other) <= _attempt(pod):
            last[index] = pod
    return last


def _attempt(pod: PodFacts) -> int:
    return pod.failure_count + pod.ignored_count
