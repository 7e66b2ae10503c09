"""How a Job ended, judged once, by one rule.

That it has ended is said by its conditions alone; pods, logs and counters of pods never take part.
How it ended is the first row of `_how` that matches. Worker, triggerer and command line ask here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from airflow_batchjob.core.capacity.marks import read_capacity
from airflow_batchjob.core.event import Cause, Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import StandsFor, StopMark, read_marks
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import JobStatus, Phase, read_status

LONGEST_LIST_BYTES = 48_000
"""An index list is whole up to here, else left out: a part of a list reads like all of it."""

_NONE = IndexSet()
_DEADLINE_EXCEEDED = "DeadlineExceeded"
_LONGEST_MESSAGE = 1_000

# Stops that nothing makes up for, however many indexes have succeeded.
_FINAL_STOPS = frozenset({Cause.STOPPED, Cause.EXECUTION_TIMEOUT, Cause.STOCK_OUT})


class Goal(Protocol):
    """What is asked of a Job. An `Order` is one."""

    @property
    def completions(self) -> int | None: ...
    @property
    def indexed(self) -> bool: ...
    @property
    def min_succeeded(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How far a Job came, measured against what was asked.

    On a Job that is not indexed they count pods, and there are no lists.
    """

    completions: int | None
    succeeded: int
    failed: int
    not_run: int
    succeeded_indexes: IndexSet = _NONE
    failed_indexes: IndexSet = _NONE
    not_run_indexes: IndexSet = _NONE
    asked_indexes: IndexSet | None = None  # by a person; None: all

    @property
    def asked_succeeded(self) -> IndexSet:
        return self.succeeded_indexes & (self.asked_indexes or _NONE)


class _Ending(NamedTuple):
    outcome: Outcome
    cause: Cause
    reason: str = ""
    message: str = ""


def judge(job: Job, goal: Goal) -> Verdict:
    """Return how `job`, which has ended, ended.

    Raises:
        ValueError: It has not: neither Complete nor Failed has the status "True".
    """
    status = read_status(job)
    if not status.phase.is_final:
        raise ValueError(f"{job.ref} has not ended: {status.phase.value}")
    counts = counts_of(job, goal)
    outcome, cause = _how(job, status, goal, counts)
    stop = stop_of(job)
    stopped = stop is not None and cause is stop.cause
    words = stop.words if stop is not None and stopped else status.message
    return _verdict(job, goal, counts, _Ending(outcome, cause, status.reason, words))


def judge_vanished(last: Job | None, order: Order) -> Verdict:
    """Return what can be said of a Job that is gone, from the `last` look at it.

    Its end may have been read (a deletion carries the final object), or every index was done. Else
    the outcome is unknown, unless it was stopped for good before it went.
    """
    if last is None:
        return _never_seen(order)
    if read_status(last).phase.is_final:
        return judge(last, order)
    counts = counts_of(last, order)
    stop = read_marks(last).stop
    if _all_done(order, counts):
        return _verdict(last, order, counts, _Ending(Outcome.MET, Cause.ENOUGH))
    if stop is not None and stop.cause in _FINAL_STOPS:
        return _verdict(last, order, counts, _Ending(Outcome.NOT_MET, stop.cause, message=stop.words))
    return _verdict(last, order, counts, _Ending(Outcome.UNKNOWN, Cause.VANISHED))


def taken_over(job: Job, order: Order) -> Verdict:
    """Return the end of a supervisor whose Job has another holder: no verdict on the Job."""
    holder = read_marks(job).holder
    words = f"held by {holder!r}, not by {order.holder!r}"
    ending = _Ending(Outcome.NOT_OURS, Cause.TAKEN_OVER, message=words)
    return _verdict(job, order, counts_of(job, order), ending)


def stop_of(job: Job) -> StopMark | None:
    """Return the stop that ended `job`; None where it ended by itself.

    A stop counts only on Failed/DeadlineExceeded, and only if it came before the deadline itself
    did. Both times of the deadline are the controller's, so its clock and ours need not agree; our
    own is asked only where the deadline had passed anyway.
    """
    marks = read_marks(job)
    target = _condition_time(job, "FailureTarget") or _condition_time(job, "Failed")
    if marks.stop is None or read_status(job).reason != _DEADLINE_EXCEEDED:
        return None
    start = job.status.start_time
    if marks.deadline is None or target is None or start is None:
        return marks.stop
    due_by_itself = target - start.timestamp() >= marks.deadline.seconds
    return None if due_by_itself and marks.stop.at >= target + 1 else marks.stop


def counts_of(job: Job, goal: Goal) -> Counts:
    """Measure `job` against what was asked: indexes beyond it do not count."""
    status = read_status(job)
    if not goal.indexed or goal.completions is None:
        return _pod_counts(job, status)
    asked = IndexSet.full(goal.completions)
    succeeded = status.succeeded_indexes & asked
    failed = (status.failed_indexes & asked) - succeeded
    not_run = asked - succeeded - failed
    resumes = read_marks(job).resumes
    named = None if resumes is None or resumes.asked is None else IndexSet.parse(resumes.asked) & asked
    return Counts(
        completions=goal.completions,
        succeeded=succeeded.count,
        failed=failed.count,
        not_run=not_run.count,
        succeeded_indexes=succeeded,
        failed_indexes=failed,
        not_run_indexes=not_run,
        asked_indexes=named,
    )


def _pod_counts(job: Job, status: JobStatus) -> Counts:
    succeeded, completions = status.succeeded, status.completions
    if completions is None:
        return Counts(completions=None, succeeded=succeeded, failed=status.failed_pods, not_run=0)
    left = max(0, completions - succeeded)
    failed = min(left, job.status.failed)
    return Counts(completions=completions, succeeded=succeeded, failed=failed, not_run=left - failed)


def _how(job: Job, status: JobStatus, goal: Goal, counts: Counts) -> tuple[Outcome, Cause]:
    """Decide; the first that matches. Design: "One supervisor, wherever it runs"."""
    enough = goal.min_succeeded is not None and counts.succeeded >= goal.min_succeeded
    if status.phase is Phase.SUCCEEDED:
        enough = enough or (counts.asked_indexes is not None and _all_done(goal, counts))
        as_asked = enough if goal.min_succeeded is not None else not _was_cut_short(job, goal, counts)
        return (Outcome.MET, Cause.COMPLETE) if as_asked else (Outcome.NOT_MET, Cause.TOO_FEW)
    if _all_done(goal, counts):
        return Outcome.MET, Cause.ENOUGH
    cause = _cause_of_failure(job, status)
    if cause is Cause.FAIL_JOB_RULE or cause in _FINAL_STOPS:
        return Outcome.NOT_MET, cause
    return (Outcome.MET, Cause.ENOUGH) if enough else (Outcome.NOT_MET, cause)


def _cause_of_failure(job: Job, status: JobStatus) -> Cause:
    if status.reason == "PodFailurePolicy":
        return Cause.FAIL_JOB_RULE
    stop = stop_of(job)
    if stop is not None:
        return stop.cause
    if status.reason != _DEADLINE_EXCEEDED:
        return Cause.TOO_FEW
    mark, sent = read_marks(job).deadline, job.spec.active_deadline_seconds
    # 0: a stop that came too late. Any other number than ours was written by someone else.
    ours = mark is not None and sent in (mark.seconds, 0)
    if mark is not None and ours and mark.stands_for is StandsFor.EXECUTION_TIMEOUT:
        return Cause.EXECUTION_TIMEOUT
    return Cause.DEADLINE


def _all_done(goal: Goal, counts: Counts) -> bool:
    if counts.asked_indexes is not None:  # the others stand as they are
        return counts.asked_succeeded == counts.asked_indexes
    return goal.indexed and goal.completions is not None and counts.succeeded >= goal.completions


def _was_cut_short(job: Job, goal: Goal, counts: Counts) -> bool:
    # An elastic Job can be scaled down by anyone, and is Complete when what is left has succeeded.
    lowered = (job.spec.completions or 0) < (goal.completions or 0)
    return goal.indexed and lowered and not _all_done(goal, counts)


def _condition_time(job: Job, kind: str) -> float | None:
    for condition in job.status.conditions:
        if condition.type == kind and condition.status == "True" and condition.last_transition_time:
            return condition.last_transition_time.timestamp()
    return None


def _never_seen(order: Order) -> Verdict:
    return Verdict(
        outcome=Outcome.UNKNOWN,
        cause=Cause.VANISHED,
        job=order.job,
        generation=order.generation,
        completions=order.completions,
        needed=order.completions if order.min_succeeded is None else order.min_succeeded,
        succeeded_indexes=None,
        failed_indexes=None,
        not_run_indexes=None,
    )


def _verdict(job: Job, goal: Goal, counts: Counts, ending: _Ending) -> Verdict:
    # Of a Job that is gone nothing can be read again.
    longest = sys.maxsize if ending.cause is Cause.VANISHED else LONGEST_LIST_BYTES
    succeeded, failed, not_run = (
        text if len(text := str(indexes)) <= longest else None
        for indexes in (counts.succeeded_indexes, counts.failed_indexes, counts.not_run_indexes)
    )
    capacity = read_capacity(job)
    lost = capacity.losses
    return Verdict(
        outcome=ending.outcome,
        cause=ending.cause,
        job=job.ref,
        generation=read_marks(job).generation,
        reason=ending.reason,
        message=ending.message[:_LONGEST_MESSAGE],
        completions=counts.completions,
        needed=counts.completions if goal.min_succeeded is None else goal.min_succeeded,
        succeeded=counts.succeeded,
        failed=counts.failed,
        not_run=counts.not_run,
        succeeded_indexes=succeeded,
        failed_indexes=failed,
        not_run_indexes=not_run,
        indexes_cut=None in (succeeded, failed, not_run),
        losses=0 if lost is None else lost.total,
        lost_seconds=0.0 if lost is None else lost.lost_seconds,
        fell_back=capacity.fell_back is not None,
        per_index=None if capacity.plan is None else {},  # pods tell it, once it is concluded
        asked=None if counts.asked_indexes is None else counts.asked_indexes.count,
        asked_succeeded=counts.asked_succeeded.count,
    )
