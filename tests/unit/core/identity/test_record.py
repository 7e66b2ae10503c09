"""The task's own record: through text and back, and never worse than the one before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.deciding.verdict import judge, judge_vanished
from airflow_batchjob.core.event import Outcome
from airflow_batchjob.core.identity.marks import ReportedMark
from airflow_batchjob.core.identity.record import Record, merged
from tests.unit.core.made import failed, job, order

HALF = Record(
    name="embed",
    uid="uid-1",
    generation=3,
    digests={"image": "a"},
    verdict=judge(job(*failed("FailedIndexes"), completedIndexes="0-4"), order()),
    reported=ReportedMark(verdict="not_met", try_number=1, retries=2, max_tries=2),
    ended_at=1_800_000_000.5,
)


def test_it_survives_text() -> None:
    assert Record.from_text(HALF.to_text()) == HALF


@pytest.mark.parametrize("text", ["", "null", "{}", "[1]", '{"name": "embed"}', HALF.to_text()[:-1]])
def test_what_cannot_be_read_is_no_record(text: str) -> None:
    assert Record.from_text(text) is None


def test_a_newer_end_replaces_an_older_one() -> None:
    newer = msgspec.structs.replace(HALF, generation=4)

    assert merged(newer, HALF) is newer


def test_of_a_job_that_nobody_saw_the_one_before_still_stands() -> None:
    unseen = msgspec.structs.replace(HALF, generation=4, verdict=judge_vanished(None, order(generation=4)))

    kept = merged(unseen, HALF)

    assert (kept.generation, kept.verdict.succeeded_indexes, kept.verdict.succeeded) == (4, "0-4", 5)


CUT: dict[str, tuple[dict[str, Any], str | None]] = {
    "not met: what the one before had done still stands": ({}, "0-4"),
    "met: nothing is left of it": ({"outcome": Outcome.MET}, None),
    "indexes were asked for again": ({"asked": 3}, None),
}


@pytest.mark.parametrize(("fields", "want"), CUT.values(), ids=CUT.keys())
def test_of_a_list_that_was_too_long(fields: dict[str, Any], want: str | None) -> None:
    cut = msgspec.structs.replace(HALF.verdict, succeeded_indexes=None, indexes_cut=True, **fields)
    newer = msgspec.structs.replace(HALF, generation=4, verdict=cut)

    kept = merged(newer, HALF)

    assert (kept.generation, kept.verdict.succeeded_indexes) == (4, want)


def test_but_not_where_the_task_was_cleared_in_between() -> None:
    told = ReportedMark(verdict="unknown", try_number=2, retries=2, max_tries=4)
    unseen = msgspec.structs.replace(
        HALF, generation=4, reported=told, verdict=judge_vanished(None, order(generation=4))
    )

    assert merged(unseen, HALF).verdict.succeeded_indexes is None


def test_but_not_where_it_did_other_work() -> None:
    unseen = msgspec.structs.replace(
        HALF, digests={"image": "b"}, verdict=judge_vanished(None, order(generation=4))
    )

    assert merged(unseen, HALF).verdict.succeeded_indexes is None
