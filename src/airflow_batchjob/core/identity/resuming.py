"""Which indexes a next generation keeps, which it runs, and which it is only told to be done.

An index that ran to its end is done, in whichever generation that was, until a person asks for it
again. Nothing is sent here: `supervisor.resume` tells Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.identity.marks import RerunMark, ResumesMark, read_marks
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status

FAILED, REST, ALL = "failed", "rest", "all"
"""What can be asked for without naming indexes."""

# Kubernetes' limit for all annotations of an object together is 256 KiB.
_LONGEST_MARKS_BYTES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What stands of an earlier generation.

    Attributes:
        name: Of the Job.
        uid: Of the Job.
        completed: Range text of the indexes that are done, over all generations.
        ended_at: When it ended; None where nobody knows.
        asked: Range text of the indexes that a person asked for; None: all that is not done.
        words: What that person wrote.
    """

    name: str
    uid: str
    completed: str = ""
    ended_at: datetime | None = None
    asked: str | None = None
    words: str = ""

    @property
    def mark(self) -> ResumesMark:
        """What the next generation says of this one."""
        return ResumesMark(name=self.name, uid=self.uid, asked=self.asked, words=self.words)

    def told(self, completions: int) -> IndexSet:
        """Return what Kubernetes is told to be completed: all that is not to run."""
        full = IndexSet.full(completions)
        done = IndexSet.parse(self.completed, completions=completions)
        return done if self.asked is None else full - IndexSet.parse(self.asked)

    def asserted(self, completions: int) -> IndexSet:
        """Return what it is told to be completed though it never was."""
        return self.told(completions) - IndexSet.parse(self.completed)


def source_of_job(job: Job, jobs: Sequence[Job], record: Record | None = None) -> Source:
    """Return what stands of `job` and of the generations that it goes on from."""
    name, uid, ended_at = job.metadata.name, job.metadata.uid, read_status(job).ended_at
    completed = str(done_indexes(job, jobs, record))
    return Source(name=name, uid=uid, completed=completed, ended_at=ended_at)


def source_to_go_on(job: Job, jobs: Sequence[Job]) -> Source:
    """Return what stands of `job` for a follow-up within the same try: it runs no more than `job` would."""
    source, mark = source_of_job(job, jobs), read_marks(job).resumes
    if mark is None or mark.asked is None:
        return source
    left = IndexSet.parse(mark.asked) - IndexSet.parse(source.completed)
    return asked_source(source, left, mark.words)


def source_of_record(record: Record, older: Sequence[Job] = ()) -> Source:
    """Return what stands of a Job that is gone.

    Args:
        record: Of that Job.
        older: What is left of the generations that it went on from, the newest first: it may have gone
            before it was told what those had done.
    """
    ended_at = datetime.fromtimestamp(record.ended_at, tz=timezone.utc) if record.ended_at else None
    completed = IndexSet.parse(record.verdict.succeeded_indexes)
    if older:
        before, failed = done_indexes(older[0], older), IndexSet.parse(record.verdict.failed_indexes)
        if not (completed - before) and not (before & failed):
            return source_of_job(older[0], older)  # which says it better: it is still there
        completed |= before - failed
    return Source(name=record.name, uid=record.uid, completed=str(completed), ended_at=ended_at)


def half_made_of(job: Job, jobs: Iterable[Job], record: Record | None = None) -> Source:
    """Return what a generation that somebody left half made goes on from.

    Args:
        job: Of an earlier process, still to be told what is done.
        jobs: All Jobs of the identity that are still there.
        record: Of a Job that may be gone.
    """
    marks, jobs = read_marks(job), list(jobs)
    mark = marks.resumes or ResumesMark(name=job.metadata.name, uid=job.metadata.uid)
    before = {other.metadata.uid: other for other in jobs}.get(mark.uid)
    if mark.asked is None:
        done = done_indexes(job, jobs, record)
    else:  # the rest stands, whatever has become of the Job that it stood on
        not_done = IndexSet.parse(mark.asked) | IndexSet.parse(marks.asserted)
        done = IndexSet.full(job.spec.completions or 0) - not_done
    return Source(
        name=mark.name,
        uid=mark.uid,
        completed=str(done),
        ended_at=None if before is None else read_status(before).ended_at,
        asked=mark.asked,
        words=mark.words,
    )


def done_indexes(job: Job, jobs: Iterable[Job], record: Record | None = None) -> IndexSet:
    """Return the indexes that are done, in `job` or in a generation that it goes on from.

    `job` may have ended before it was told what those had done, or without a right to be told.

    Args:
        job: Of any phase.
        jobs: All Jobs of the identity that are still there.
        record: Of a Job that may be gone.
    """
    by_uid = {other.metadata.uid: other for other in jobs}
    done, gone = IndexSet(), IndexSet()  # what stands, and what later generations have taken back
    current: Job | None = job
    while current is not None:
        status, mark = read_status(current), read_marks(current).resumes
        done |= status.succeeded_indexes - gone
        if mark is None:
            break
        gone |= status.failed_indexes | IndexSet.parse(mark.asked)
        current = by_uid.pop(mark.uid, None)
        if current is None and record is not None and record.uid == mark.uid:
            done |= IndexSet.parse(record.verdict.succeeded_indexes) - gone
    return done


def asked_indexes(request: RerunMark, job: Job, done: IndexSet, completions: int) -> IndexSet:
    """Return the indexes that a request means.

    Args:
        request: As a person wrote it.
        job: The newest Job, which has ended.
        done: What is done over all generations.
        completions: Of the Job.

    Raises:
        SpecError: It means none, or what is not there.
    """
    words = request.indexes.strip().lower()
    full = IndexSet.full(completions)
    if words == ALL:
        return full
    if words == REST:
        return _some(
            full - done, words, "everything is done already", 'Ask for "all", or for indexes by number'
        )
    if words == FAILED:
        failed = (read_status(job).failed_indexes & full) - done
        why = f"Job {job.metadata.name} lists no failed index"
        return _some(failed, words, why, 'Ask for "rest", which is all that is not done')
    asked = IndexSet.typed(words, completions=completions)
    return _some(asked, words, "it names no index", 'Write numbers and ranges, e.g. "3,7-9"')


def rerun_source(request: RerunMark, source: Source, job: Job, completions: int) -> Source | None:
    """Return what stands once a request is carried out; None: nothing, everything runs.

    Raises:
        SpecError: The request can't be carried out.
    """
    done = IndexSet.parse(source.completed)
    asked = asked_indexes(request, job, done, completions)
    if asked == IndexSet.full(completions):
        return None
    made = asked_source(source, asked, request.indexes)
    size = len(made.asked or "") + len(str(made.asserted(completions)))
    if size > _LONGEST_MARKS_BYTES:
        why = f"what runs and what stands takes {size:,} bytes to write down, in too many ranges for a Job"
        raise SpecError(Problem("indexes", request.indexes[:80], why, 'Ask for "rest" or "all"'))
    return made


def asked_source(source: Source, asked: IndexSet, words: str) -> Source:
    """Return `source` with the indexes that run in place of all that is not done."""
    return Source(
        name=source.name,
        uid=source.uid,
        completed=str(IndexSet.parse(source.completed) - asked),
        ended_at=source.ended_at,
        asked=str(asked),
        words=words,
    )


def kept_text(source: Source, completions: int) -> str:
    """Say what stays done, of which Job and when, and what runs."""
    done = IndexSet.parse(source.completed, completions=completions)
    when = f" by {source.ended_at:%Y-%m-%d %H:%M} UTC" if source.ended_at is not None else ""
    runs = IndexSet.full(completions) - source.told(completions)
    asserted = source.asserted(completions)
    text, left_out = runs.cut(120)
    parts = [
        f"keeps {done.count:,} of {completions:,} indexes, done in {source.name}{when}",
        f"runs {runs.count:,}: {text}{',…' if left_out else ''}",
    ]
    if asserted:
        parts.insert(1, f"leaves {asserted.count:,} that were not asked for as they are")
    return ", ".join(parts[:-1]) + f", and {parts[-1]}"


def _some(indexes: IndexSet, words: str, why: str, mend: str) -> IndexSet:
    if not indexes:
        raise SpecError(Problem("indexes", words, why, mend))
    return indexes
