"""One task instance, one Job at a time: what to do about the Jobs that an identity has already.

The decision table on the newest of them; the first row that matches decides. Nothing is read or
sent here: `supervisor.submit` lists, asks, acts, and asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from typing_extensions import assert_never

from airflow_batchjob.core.deciding.verdict import judge
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.event import Outcome, Verdict
from airflow_batchjob.core.identity.digests import changed_fields
from airflow_batchjob.core.identity.marks import (
    RERUN,
    Marks,
    RerunMark,
    ResumesMark,
    read_marks,
    was_cleared,
)
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.identity.resuming import (
    Source,
    asked_source,
    rerun_source,
    source_of_job,
    source_of_record,
)
from airflow_batchjob.core.identity.runs import is_of_another_run
from airflow_batchjob.core.identity.stopped import is_stopped
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import Phase, read_status


class Again(str, Enum):
    """What a retry, or a user's clear, runs again."""

    REST = "rest"  # only what is not completed
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What this try asks for, as far as it decides between an earlier Job and a new one.

    `waited`: an ending Job was waited for, so what is found now was left by an earlier try.
    """

    completions: int | None
    indexed: bool
    min_succeeded: int | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    incarnation: str = ""
    holder: str = ""
    retries: int = 0
    max_tries: int = 0
    on_retry: Again = Again.REST
    on_clear: Again = Again.ALL
    waited: bool = False


@dataclass(frozen=True, slots=True)
class SubmitFirst:
    """There is none: submit generation 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitNext:
    """Submit `generation`; `resume_from` says what it keeps, None: nothing, everything runs."""

    generation: int
    because: str
    resume_from: Source | None = None


@dataclass(frozen=True, slots=True)
class Attach:
    """It is alive: become its holder and see it through."""

    job: Job


@dataclass(frozen=True, slots=True)
class WaitUntilGone:
    """It is ending or being deleted: look again until it is final or gone."""

    job: Job


@dataclass(frozen=True, slots=True)
class StopThenNext:
    """It is alive and does other work than what is asked now: stop it."""

    job: Job
    reason: str


@dataclass(frozen=True, slots=True)
class TakeResult:
    """An earlier try met what is asked and died before it could tell."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ReportAgain:
    """It ended under this very try, not met: say so."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RefuseIncarnation:
    """It is alive and belongs to a deleted run of the same name, or to another Airflow."""

    job: Job
    theirs: str
    ours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseRerun:
    """Indexes were asked for that can't be run again by themselves. Never silently everything."""

    error: SpecError


Decision: TypeAlias = (
    SubmitFirst
    | SubmitNext
    | Attach
    | WaitUntilGone
    | StopThenNext
    | TakeResult
    | ReportAgain
    | RefuseIncarnation
    | RefuseRerun
)


def newest_first(jobs: Sequence[Job]) -> list[Job]:
    """Return the Jobs of one identity, the newest generation first."""
    return sorted(jobs, key=lambda job: read_marks(job).generation, reverse=True)


def is_ending(job: Job) -> bool:
    """Tell whether `job` is on its way out, and not yet final.

    A final Job that is being deleted still says how it ended, and holds no name that we need.
    """
    phase = read_status(job).phase
    if phase.is_final:
        return False
    deleting = job.metadata.deletion_timestamp is not None
    return deleting or phase is Phase.STOPPING or is_stopped(job)


def decide(jobs: Sequence[Job], asked: Asked, record: Record | None = None) -> Decision:
    """Decide what to do; the rows of the table, from above.

    Args:
        jobs: All Jobs of this identity, in any order.
        asked: What this try asks for.
        record: What the task's store says, for when its newest Job is gone; None where there is no store.
    """
    jobs = newest_first(jobs)
    if not jobs:
        return _without_job(asked, record)
    job = jobs[0]
    marks, phase = read_marks(job), read_status(job).phase
    following = marks.generation + 1
    if is_ending(job):
        return WaitUntilGone(job)
    if record is not None and _has_outlived(job, record):
        return _without_job(asked, record, jobs if _may_stand(job, asked, record) else ())
    if is_of_another_run(marks, incarnation=asked.incarnation, holder=asked.holder):
        if not phase.is_final:
            theirs, ours = marks.incarnation or marks.holder, asked.incarnation or asked.holder
            return RefuseIncarnation(job, theirs, ours)
        return SubmitNext(generation=following, because="the earlier Job belongs to another run of this name")
    changed = changed_fields(marks.digests, asked.digests)
    if marks.rerun is not None and phase.is_final:
        return _rerun(marks.rerun, job, asked, source_of_job(job, jobs, record), changed)
    if not phase.is_final:
        stopped = "" if marks.stop is None else f"a stop of it has no effect any more ({marks.stop.words})"
        reason = stopped or _changed_text(changed)
        return StopThenNext(job, reason) if reason else Attach(job)
    if changed:
        return SubmitNext(generation=following, because=_changed_text(changed))
    return _after_end(judge(job, asked), marks, asked, source_of_job(job, jobs, record))


def _has_outlived(job: Job, record: Record) -> bool:
    """Tell whether the newest Job that is left is older than the newest that there was."""
    marks = read_marks(job)
    older = marks.generation < record.generation
    return older and read_status(job).phase.is_final and marks.rerun is None


def _may_stand(job: Job, asked: Asked, record: Record) -> bool:
    """Tell whether the generation of the record went on from `job`, which is older."""
    marks = read_marks(job)
    other = is_of_another_run(marks, incarnation=asked.incarnation, holder=asked.holder)
    if other or marks.digests != record.digests or record.verdict.asked is not None:
        return False
    told, told_later = marks.reported, record.reported
    if told is None or told_later is None or not was_cleared(told, told_later):
        return True
    return asked.on_clear is Again.REST and judge(job, asked).outcome is not Outcome.MET


def _without_job(asked: Asked, record: Record | None, older: Sequence[Job] = ()) -> Decision:
    if record is None:
        return SubmitFirst()
    if changed := changed_fields(record.digests, asked.digests):
        return SubmitNext(generation=record.generation + 1, because=_changed_text(changed))
    marks = Marks(generation=record.generation, reported=record.reported)
    return _after_end(record.verdict, marks, asked, source_of_record(record, older))


def _rerun(request: RerunMark, job: Job, asked: Asked, source: Source, changed: list[str]) -> Decision:
    """Carry out what a person asked for: it wins over all that the table says of an ended Job."""
    try:
        completions = _same_completions(request, job, asked)
        made = rerun_source(request, source, job, completions)
    except SpecError as error:
        return RefuseRerun(error=error)
    who = f" by {request.by}" if request.by else ""
    because = f"{request.indexes!r} was asked for{who}"
    if changed and made is not None:
        because += f"; {', '.join(changed)} changed since, what is kept was done before"
    return SubmitNext(generation=read_marks(job).generation + 1, because=because, resume_from=made)


def _same_completions(request: RerunMark, job: Job, asked: Asked) -> int:
    if asked.completions is None or not asked.indexed:
        why = "the Job is not Indexed, so it can't be run again in part"
        raise SpecError(Problem("indexes", request.indexes[:80], why, "Set completionMode: Indexed"))
    if job.spec.completions != asked.completions:
        why = f"asked for on a Job of {job.spec.completions} completions, and now it has {asked.completions}"
        mend = f"Ask for the old number, or take the annotation {RERUN} off Job {job.ref} to run everything"
        raise SpecError(Problem("indexes", request.indexes[:80], why, mend))
    return asked.completions


def _after_end(verdict: Verdict, marks: Marks, asked: Asked, source: Source) -> Decision:
    following = marks.generation + 1
    cleared = marks.reported is not None and was_cleared(marks.reported, asked)
    again, who = (asked.on_clear, "the task was cleared") if cleared else (asked.on_retry, "a retry")
    if verdict.outcome is Outcome.MET:
        told = marks.reported is not None and marks.reported.verdict == Outcome.MET.value
        if not told or not cleared:
            return TakeResult(verdict)
        # Whoever clears a green task wants it done anew: nothing is left of "the rest".
        return SubmitNext(generation=following, because=f"{who}; the earlier Job had met what was asked")
    if marks.holder and marks.holder == asked.holder and not asked.waited:
        return ReportAgain(verdict)
    because = f"{who}; {verdict.succeeded:,} of {_total(verdict)} had succeeded"
    requested = None if cleared else marks.resumes
    if requested is not None and requested.asked is not None:
        source = _asked_still(source, requested, again)
    elif again is Again.ALL:
        return SubmitNext(generation=following, because=because)
    return SubmitNext(generation=following, because=because, resume_from=_if_indexed(source, asked))


def _asked_still(source: Source, requested: ResumesMark, again: Again) -> Source:
    """Go on with a request whose generation was not met: a retry runs no more than a person asked for."""
    asked = IndexSet.parse(requested.asked)
    match again:
        case Again.REST:
            left = asked - IndexSet.parse(source.completed)
        case Again.ALL:
            left = asked
        case _ as never:
            assert_never(never)
    return asked_source(source, left, requested.words)


def _if_indexed(source: Source, asked: Asked) -> Source | None:
    return source if asked.indexed and asked.completions is not None else None


def _changed_text(changed: list[str]) -> str:
    return f"{', '.join(changed)} changed since the earlier Job was submitted" if changed else ""


def _total(verdict: Verdict) -> str:
    return "an open number" if verdict.completions is None else f"{verdict.completions:,}"
