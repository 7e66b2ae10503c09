"""Stock-out: pods wait for a machine, and none comes.

Some pod is unscheduled, none was newly scheduled for `pending_seconds`, and no pod runs. Read from
the pods' own times where they have them, so that a supervisor that starts anew knows what it knew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Lifecycle, Pod, lifecycle_of
from airflow_batchjob.core.wording import counted

# A pod that ends frees its machine for one that waits: the scheduler gets this long to see it.
_SETTLING_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What is remembered of pods that may be gone by the next look; epoch seconds, 0: never."""

    newly_scheduled_at: float = 0.0
    running_at: float = 0.0
    unscheduled_since: float = 0.0  # some pod has been waiting, without a break


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Pods without a machine: how many, since when, when patience ends, and the scheduler's words."""

    unscheduled: int
    since: float
    words: str
    due_at: float

    def told(self, pending_seconds: int | None) -> str:
        """Say it, with the scheduler's own words."""
        said = f"{counted(self.unscheduled, 'pod')} without a machine for {pending_seconds} s"
        return f"{said}: {self.words.rstrip('.')}" if self.words else said


def look(pods: Sequence[Pod], before: Scheduling, now: float, most_running: int = 0) -> Scheduling:
    """Return what is to be remembered after this look at all pods of a Job."""
    stages = [lifecycle_of(pod) for pod in pods]
    waiting = [pod for pod, stage in zip(pods, stages, strict=True) if stage is Lifecycle.QUEUED]
    first = min((_created_at(pod, now) for pod in waiting), default=0.0)
    since = min(before.unscheduled_since or now, first) if waiting else 0.0
    return replace(
        before,
        newly_scheduled_at=max([before.newly_scheduled_at, *map(_scheduled_at, pods)]),
        running_at=now if stages.count(Lifecycle.RUNNING) > most_running else before.running_at,
        unscheduled_since=since,
    )


def shortage(
    job: Job, pods: Sequence[Pod], seen: Scheduling, pending_seconds: int | None, most_running: int = 0
) -> Shortage | None:
    """Return the shortage in these pods; None where every pod has a machine.

    `due_at` is the moment from which it is a stock-out, if nothing changes: never while more pods run
    than `most_running`, or without a limit.
    """
    waiting = [pod for pod in pods if lifecycle_of(pod) is Lifecycle.QUEUED]
    if not waiting:
        return None
    due_at = float("inf")
    running = sum(lifecycle_of(pod) is Lifecycle.RUNNING for pod in pods)
    if pending_seconds is not None and running <= most_running:
        start = job.status.start_time  # set anew by a resume
        due_at = max(
            seen.newly_scheduled_at + pending_seconds,
            seen.unscheduled_since + pending_seconds,
            (start.timestamp() if start else seen.unscheduled_since) + pending_seconds,
            seen.running_at + min(_SETTLING_SECONDS, pending_seconds),
        )
    return Shortage(
        unscheduled=len(waiting), since=seen.unscheduled_since, words=_words(waiting), due_at=due_at
    )


def _words(waiting: Sequence[Pod]) -> str:
    for pod in waiting:
        said = pod.condition("PodScheduled")
        if said is not None and said.status == "False" and said.message:
            return said.message
    return ""


def _created_at(pod: Pod, now: float) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else now


def _scheduled_at(pod: Pod) -> float:
    said = pod.condition("PodScheduled")
    if said is None or said.status != "True" or said.last_transition_time is None:
        return 0.0
    return said.last_transition_time.timestamp()
