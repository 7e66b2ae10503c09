"""Two clocks of a try: `deadline_seconds` of active time, and the wall clock's end.

Kubernetes knows one clock, `activeDeadlineSeconds`, which counts from a Job's own `startTime` and
starts again at each resume. So it is sent as "elapsed + what this try has left", with a mark that
says what it stands for, and sent again at every attach, suspension and late start.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

import msgspec

from airflow_batchjob.core.identity.marks import DeadlineMark, StandsFor, read_marks
from airflow_batchjob.core.reading.job import Job

# A start soon after the mark was written shifts the wall clock's end by no more than this.
_LATE_START_SECONDS = 60.0


class Limits(Protocol):
    """An `Order` is one, a `Request` too."""

    @property
    def holder(self) -> str: ...
    @property
    def deadline_seconds(self) -> int | None: ...
    @property
    def wall_clock_end(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An `activeDeadlineSeconds` to send, and the mark that goes with it."""

    seconds: int
    mark: DeadlineMark


def active_seconds(job: Job, holder: str, now: float) -> float:
    """Return how long `job` has been active under this holder: suspended time does not count.

    Args:
        job: As seen last.
        holder: The try; another try's time is not this one's.
        now: Epoch seconds.
    """
    mark = read_marks(job).deadline
    if mark is not None and mark.holder != holder:
        return 0.0
    spent, since = (mark.spent_seconds, mark.since) if mark is not None else (0.0, 0.0)
    start, paused = job.status.start_time, suspended_at(job)
    if start is None:
        return spent
    until = now if paused is None else min(now, paused)
    return spent + max(0.0, until - max(start.timestamp(), since))


def to_send(job: Job | None, limits: Limits, now: float) -> Sent | None:
    """Return the deadline to send now; None where this try has no limit.

    Args:
        job: The Job that it goes to; None: it is about to be created.
        limits: Of this try.
        now: Epoch seconds.
    """
    spent = 0.0 if job is None else active_seconds(job, limits.holder, now)
    left: dict[StandsFor, float] = {}
    if limits.deadline_seconds is not None:
        left[StandsFor.DEADLINE] = limits.deadline_seconds - spent
    if limits.wall_clock_end is not None:
        left[StandsFor.EXECUTION_TIMEOUT] = limits.wall_clock_end - now
    if not left:
        return None
    first = min(left, key=left.__getitem__)
    # 0 would be a stop, which is for `supervisor.stopping` to send, with its reason.
    seconds = max(1, ceil(_kubernetes_elapsed(job, now) + left[first]))
    mark = DeadlineMark(
        stands_for=first, seconds=seconds, holder=limits.holder, spent_seconds=spent, since=now
    )
    return Sent(seconds=seconds, mark=mark)


def to_send_again(job: Job, limits: Limits, now: float) -> Sent | None:
    """Return the deadline to send because Kubernetes' clock has stopped or started; else None."""
    mark, paused, start = read_marks(job).deadline, suspended_at(job), job.status.start_time
    if mark is None:
        return None
    ran_before = start is not None and paused is not None and mark.since < paused
    late = paused is None and start is not None and start.timestamp() > mark.since + _LATE_START_SECONDS
    return to_send(job, limits, now) if ran_before or late else None


def with_start(job: Job, before: Job | None) -> Job:
    """Return `job` with the start that it had `before` its suspension, if the server has cleared it since.

    From 1.36 on a suspension clears `startTime` in the same write that reports it.
    """
    if before is None or job.status.start_time is not None or suspended_at(job) is None:
        return job
    status = msgspec.structs.replace(job.status, start_time=before.status.start_time)
    return msgspec.structs.replace(job, status=status)


def suspended_at(job: Job) -> float | None:
    """Return since when `job` is suspended, in epoch seconds; None where it is not."""
    for condition in job.status.conditions:
        if condition.type == "Suspended" and condition.status == "True":
            at = condition.last_transition_time
            return at.timestamp() if at is not None else 0.0
    return None


def _kubernetes_elapsed(job: Job | None, now: float) -> float:
    if job is None or job.status.start_time is None or suspended_at(job) is not None:
        return 0.0
    return max(0.0, now - job.status.start_time.timestamp())
