"""Wait for a Job that someone else runs: newest generation first, and never past its owner's end.

Looks come from outside (a watch, or one list after another), and so does the answer to whether the
owning task can still bring another generation. Nothing is written to the cluster here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import msgspec
from typing_extensions import assert_never

from airflow_batchjob.core.deciding.verdict import counts_of, judge
from airflow_batchjob.core.errors import OutcomeUnknownError, Problem, SpecError
from airflow_batchjob.core.event import Cause, Outcome, Verdict
from airflow_batchjob.core.identity.identity import newest_first
from airflow_batchjob.core.identity.marks import read_marks
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import JobStatus, read_status
from airflow_batchjob.core.request.budget import ceiling_of, floor_of, is_percentage, share_problem
from airflow_batchjob.core.wording import counted

ENDED, STARTED = "ended", "started"

Jobs = Sequence[Job]


class Owner(Protocol):
    """The task whose Job is watched, as far as Airflow tells."""

    async def is_final(self, job: Job | None) -> bool:
        """Tell whether no task will bring another generation; for a Job that no task owns, True at once."""

    async def result(self) -> Mapping[str, Any] | None:
        """Return what the owning task returned; None where it returned nothing, or there is no such task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is waited for.

    Attributes:
        until: "ended", "started", or how many indexes must have succeeded: a count or a percentage.
        max_failed: More failed indexes than this end the wait; a count or a percentage.
    """

    until: int | str = ENDED
    max_failed: int | str | None = None

    def problems(self) -> list[Problem]:
        """Return what can be said before any Job is seen."""
        found = [
            None if self.until in (ENDED, STARTED) else share_problem("until", self.until),
            None if self.max_failed is None else share_problem("max_failed", self.max_failed),
        ]
        return [problem for problem in found if problem is not None]


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a wait; `why` says what was missed where the aim was not met.

    `told` is what the owning task returned, where its Job is gone and only that is left.
    """

    met: bool
    why: str = ""
    verdict: Verdict | None = None
    told: dict[str, Any] | None = None


class _Look(Enum):
    WAIT = "nothing has been decided yet"
    ASK = "only another generation could still help"


async def observe(
    looks: AsyncIterator[Jobs], fresh: Callable[[], Awaitable[Jobs]], aim: Aim, owner: Owner
) -> Observation:
    """Return how the wait ended; it has no limit of its own.

    Args:
        looks: The watched Jobs, again and again: at each change, and once in a while without one.
        fresh: Reads them anew from the API server.
        aim: What is waited for.
        owner: Who may still bring another generation.

    Raises:
        OutcomeUnknownError: There is no Job, and none will come.
        SpecError: A percentage of a Job that has no completions.
    """
    last: Job | None = None
    async for jobs in looks:
        last = newest(jobs) or last
        found = await settled(jobs, fresh, aim, owner, last=last)
        if found is not None:
            return found
    raise OutcomeUnknownError("The looks at the Job ended before the wait did")


async def settled(
    jobs: Jobs, fresh: Callable[[], Awaitable[Jobs]], aim: Aim, owner: Owner, *, last: Job | None = None
) -> Observation | None:
    """Return the end of the wait, or None: wait on. Raises as `observe` does.

    `last` is the newest Job that was seen before, in case there is none now.
    """
    job = newest(jobs)
    seen = _judged(jobs, aim)
    match seen:
        case _Look.WAIT:
            return None
        case Observation() if job is not None and read_marks(job).reported is None:
            return seen
        case Observation() | _Look.ASK:
            # What was told to Airflow already may be from before a clear: then another comes.
            if not await owner.is_final(job or last):
                return None
        case _ as never:
            assert_never(never)
    # The owner may have brought another generation, and ended, since `jobs` was read.
    now = await fresh()
    if not now:
        return _from_result(await owner.result(), aim)
    seen = _judged(now, aim)
    if isinstance(seen, Observation):
        return seen
    return _missed(newest(now), aim) if seen is _Look.ASK else None


def newest(jobs: Jobs) -> Job | None:
    """Return the newest generation; among Jobs that are not ours, the one created last."""
    if not jobs:
        return None
    by_age = sorted(jobs, key=_created, reverse=True)
    return newest_first(by_age)[0]


def _created(job: Job) -> float:
    created = job.metadata.creation_timestamp
    return created.timestamp() if created else 0.0


def _judged(jobs: Jobs, aim: Aim) -> Observation | _Look:
    job = newest(jobs)
    if job is None:
        return _Look.ASK
    status = read_status(job)
    failed = _share("max_failed", floor_of, aim.max_failed, status) if aim.max_failed is not None else None
    if failed is not None and status.failed > failed:
        count = counted(status.failed, "index", "indexes")
        why = f"{count} failed, {failed:,} are allowed (max_failed={aim.max_failed!r})"
        return Observation(met=False, why=why, verdict=verdict_of(job, Outcome.NOT_MET))
    if aim.until == STARTED:
        return _met(job) if _has_started(job, status) else _Look.WAIT
    if aim.until == ENDED:
        if not status.phase.is_final:
            return _Look.WAIT
        return _met(job) if _ends_its_task(job) else _Look.ASK
    needed = _share("until", ceiling_of, aim.until, status)
    if status.succeeded >= needed:
        return _met(job)
    return _Look.ASK if status.phase.is_final else _Look.WAIT


def _has_started(job: Job, status: JobStatus) -> bool:
    running = status.active if job.status.ready is None else status.ready
    return bool(running or status.succeeded or status.failed_pods or status.phase.is_final)


def _ends_its_task(job: Job) -> bool:
    # What its owner has reported as met is never run again by a retry.
    marks = read_marks(job)
    told = marks.reported is not None and marks.reported.verdict == Outcome.MET.value
    return told or judge(job, _Goal.of(job)).outcome is Outcome.MET


def _missed(job: Job | None, aim: Aim) -> Observation:
    if job is None:
        raise OutcomeUnknownError("There is no Job to judge")
    status = read_status(job)
    if aim.until == ENDED:
        return _met(job)
    needed = _share("until", ceiling_of, aim.until, status)
    why = f"{job.ref} has ended with {status.succeeded:,} succeeded, {needed:,} needed (until={aim.until!r})"
    return Observation(met=False, why=why, verdict=verdict_of(job, Outcome.NOT_MET))


def _met(job: Job) -> Observation:
    return Observation(met=True, verdict=verdict_of(job, Outcome.MET))


def _from_result(told: Mapping[str, Any] | None, aim: Aim) -> Observation:
    result = dict(told) if isinstance(told, Mapping) else {}
    succeeded, completions = result.get("succeeded"), result.get("completions")
    if not isinstance(succeeded, int):
        raise OutcomeUnknownError(
            "There is no Job, none will come, and the task that owned it returned no counts. "
            "Did it run, in this namespace, and was its Job kept (on_finish, ttl_seconds_after_finished)?"
        )
    if aim.until in (ENDED, STARTED):
        return Observation(met=True, told=result)
    if not isinstance(completions, int):
        needed = ceiling_of(aim.until, 0) if not is_percentage(aim.until) else succeeded
    else:
        needed = ceiling_of(aim.until, completions)
    why = "" if succeeded >= needed else f"the task ended with {succeeded:,} succeeded, {needed:,} needed"
    return Observation(met=not why, why=why, told=result)


def _share(field: str, rule: Callable[[Any, int], int], value: Any, status: JobStatus) -> int:
    if status.completions is None and is_percentage(value):
        why = f"{status.job} has no completions to take a part of"
        raise SpecError(Problem(field, value, why, "Give a number"))
    return rule(value, status.completions or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    completions: int | None
    indexed: bool
    min_succeeded: int | None = None

    @classmethod
    def of(cls, job: Job) -> _Goal:
        return cls(completions=job.spec.completions, indexed=job.spec.completion_mode == "Indexed")


def verdict_of(job: Job, outcome: Outcome) -> Verdict:
    """Return the counts of a Job that may still run; of an ended one, how it ended."""
    status, goal = read_status(job), _Goal.of(job)
    if status.phase.is_final:
        ended = judge(job, goal)
        reported = read_marks(job).reported
        met = ended.outcome is Outcome.MET or (reported is not None and reported.verdict == Outcome.MET.value)
        return msgspec.structs.replace(ended, outcome=Outcome.MET if met else Outcome.NOT_MET)
    counts = counts_of(job, goal)
    return Verdict(
        outcome=outcome,
        cause=Cause.ENOUGH if outcome is Outcome.MET else Cause.TOO_FEW,
        job=job.ref,
        generation=read_marks(job).generation,
        completions=counts.completions,
        succeeded=counts.succeeded,
        failed=counts.failed,
        not_run=counts.not_run,
        succeeded_indexes=str(counts.succeeded_indexes),
        failed_indexes=str(counts.failed_indexes),
        not_run_indexes=str(counts.not_run_indexes),
    )
