"""What a next generation keeps, what it runs, and what Kubernetes is only told."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.deciding.verdict import judge
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.identity.marks import ASSERTED, RESUMES, RerunMark, ResumesMark
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.identity.resuming import (
    Source,
    asked_indexes,
    done_indexes,
    half_made_of,
    kept_text,
    rerun_source,
    source_of_job,
    source_to_go_on,
)
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from tests.unit.core.made import failed, job, order

COMPLETIONS = 10
indexes = st.sets(st.integers(0, COMPLETIONS - 1)).map(IndexSet.of)


def generation(
    number: int,
    *,
    done: str = "",
    lost: str = "",
    resumes: int | None = None,
    asked: str | None = None,
    asserted: str = "",
) -> Job:
    """Return a Job that has ended, told or not; `resumes` is the number of the one it goes on from."""
    made = job(
        *failed("FailedIndexes"),
        generation=number,
        uid=f"uid-{number}",
        completedIndexes=done,
        failedIndexes=lost,
    )
    if resumes is not None:
        mark = ResumesMark(name="embed", uid=f"uid-{resumes}", asked=asked)
        made.metadata.annotations[RESUMES] = mark.to_text()
    if asserted:
        made.metadata.annotations[ASSERTED] = asserted
    return made


RAN = generation(0, done="0-4", lost="5")

CHAINS = {
    "one Job": ([RAN], "0-4"),
    "one that was told, and did more": ([generation(1, done="0-6", resumes=0), RAN], "0-6"),
    "one that ended before it was told": ([generation(1, resumes=0), RAN], "0-4"),
    "two that ended before they were told": (
        [generation(2, resumes=1), generation(1, resumes=0), RAN],
        "0-4",
    ),
    "one that was not told and ran all again, in part": ([generation(1, done="5-7", resumes=0), RAN], "0-7"),
    "what failed when it ran again does not stand": (
        [generation(1, done="5", lost="2", resumes=0), RAN],
        "0,1,3-5",
    ),
    "what was asked for again does not stand until it has run": (
        [generation(1, resumes=0, asked="0,1", asserted="5-9"), RAN],
        "2-4",
    ),
    "what was only asserted is not done": (
        [generation(1, done="0-9", resumes=0, asked="5", asserted="6-9"), RAN],
        "0-5",
    ),
    "the one before is gone": ([generation(1, done="0-5", resumes=0)], "0-5"),
    "one from scratch forgets": ([generation(1, done="9"), RAN], "9"),
    "a Job that says it resumes itself": ([generation(0, done="1", resumes=0)], "1"),
}


@pytest.mark.parametrize(("jobs", "want"), CHAINS.values(), ids=CHAINS.keys())
def test_what_is_done_over_all_generations(jobs: list[Job], want: str) -> None:
    assert str(done_indexes(jobs[0], jobs)) == want


def test_a_record_stands_in_for_a_job_that_is_gone() -> None:
    record = Record(name="embed", uid="uid-0", generation=0, digests={}, verdict=judge(RAN, order()))
    half = generation(1, resumes=0)

    assert str(done_indexes(half, [half], record)) == "0-4"
    assert str(half_made_of(half, [half], record).told(COMPLETIONS)) == "0-4"


def test_a_half_made_request_needs_no_predecessor() -> None:
    half = generation(1, resumes=0, asked="3,5", asserted="6-9")

    source = half_made_of(half, [half])

    assert (source.completed, str(source.told(COMPLETIONS))) == ("0-2,4", "0-2,4,6-9")
    assert str(source.asserted(COMPLETIONS)) == "6-9"


def test_a_half_made_job_whose_mark_was_taken_away_is_told_nothing() -> None:
    half = generation(1)

    assert not half_made_of(half, [half]).told(COMPLETIONS)


def test_a_follow_up_runs_no_more_than_was_asked_for() -> None:
    asked = generation(1, done="0-3,6-9", resumes=0, asked="3,4,5", asserted="6-9")

    source = source_to_go_on(asked, [asked, RAN])

    assert (source.asked, str(source.told(COMPLETIONS)), str(source.asserted(COMPLETIONS))) == (
        "4,5",
        "0-3,6-9",
        "6-9",
    )
    assert source_to_go_on(RAN, [RAN]) == source_of_job(RAN, [RAN])


ASKED = {
    "failed": ("failed", "5"),
    "rest": ("rest", "5-9"),
    "all": ("all", "0-9"),
    "by number": (" 3, 7-9 ", "3,7-9"),
    "in capitals": ("Failed", "5"),
}


@pytest.mark.parametrize(("words", "want"), ASKED.values(), ids=ASKED.keys())
def test_what_a_request_means(words: str, want: str) -> None:
    found = asked_indexes(RerunMark(indexes=words), RAN, IndexSet.parse("0-4"), COMPLETIONS)

    assert str(found) == want


REFUSED = {
    "failed, where none is listed": ("failed", generation(0, done="0-4"), 'Ask for "rest"'),
    "the rest of nothing": ("rest", generation(0, done="0-9"), "everything is done"),
    "none": ("", RAN, "names no index"),
    "one that is not there": ("10", RAN, "no such index"),
    "a word": ("some", RAN, "neither an index nor a range"),
}


@pytest.mark.parametrize(("words", "on", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_that_means_nothing_is_refused(words: str, on: Job, want: str) -> None:
    with pytest.raises(SpecError, match=want):
        asked_indexes(RerunMark(indexes=words), on, done_indexes(on, [on]), COMPLETIONS)


def test_all_that_is_asked_for_keeps_nothing() -> None:
    assert rerun_source(RerunMark(indexes="0-9"), source_of_job(RAN, [RAN]), RAN, COMPLETIONS) is None


def test_more_ranges_than_a_job_can_hold_are_refused() -> None:
    many = 200_000
    done = str(IndexSet.of(range(0, many, 2)))
    source = Source(name="embed", uid="uid-0", completed=done)

    with pytest.raises(SpecError, match="in too many ranges for a Job"):
        rerun_source(RerunMark(indexes="7"), source, RAN, many)


TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "the rest runs": (
        {"completed": "0-4"},
        "keeps 5 of 10 indexes, done in embed by 2027-01-15 08:00 UTC, and runs 5: 5-9",
    ),
    "some were asked for": (
        {"completed": "0-4", "asked": "5"},
        (
            "keeps 5 of 10 indexes, done in embed by 2027-01-15 08:00 UTC, leaves 4 that were not asked "
            "for as they are, and runs 1: 5"
        ),
    ),
    "nobody knows when": ({"ended_at": None}, "keeps 0 of 10 indexes, done in embed, and runs 10: 0-9"),
}


@pytest.mark.parametrize(("fields", "want"), TEXTS.values(), ids=TEXTS.keys())
def test_the_log_says_what_is_kept(fields: dict[str, Any], want: str) -> None:
    ended_at = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
    source = Source(**{"name": "embed", "uid": "uid-0", "ended_at": ended_at} | fields)

    assert kept_text(source, COMPLETIONS) == want


@given(done=indexes, asked=st.none() | indexes)
def test_what_runs_and_what_stands_are_all_there_is(done: IndexSet, asked: IndexSet | None) -> None:
    completed = done if asked is None else done - asked
    source = Source(
        name="embed", uid="u", completed=str(completed), asked=None if asked is None else str(asked)
    )
    full = IndexSet.full(COMPLETIONS)
    told, asserted = source.told(COMPLETIONS), source.asserted(COMPLETIONS)

    assert told == completed | asserted
    assert not completed & asserted
    assert full - told == (full - done if asked is None else asked)
