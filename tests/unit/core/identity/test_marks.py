"""Marks read back from a Job; what anyone may have scribbled over counts as absent."""

from __future__ import annotations

import msgspec
import pytest

from airflow_batchjob.core.event import Cause
from airflow_batchjob.core.identity.marks import (
    DEADLINE,
    DIGESTS,
    GENERATION,
    REPORTED,
    STOP,
    DeadlineMark,
    Marks,
    ReportedMark,
    StandsFor,
    StopMark,
    read_marks,
)
from airflow_batchjob.core.reading.job import Job

STOPPED = StopMark(cause=Cause.STOCK_OUT, words="no GPU", at=12.5)
SENT = DeadlineMark(stands_for=StandsFor.DEADLINE, seconds=60, holder="ti/1", spent_seconds=1.5, since=9.0)
TOLD = ReportedMark(verdict="met", try_number=2, retries=1, max_tries=3)


def job_with(labels: dict[str, str], annotations: dict[str, str]) -> Job:
    return msgspec.convert({"metadata": {"labels": labels, "annotations": annotations}}, Job)


def test_what_was_written_is_read() -> None:
    annotations = {
        STOP: STOPPED.to_text(),
        DEADLINE: SENT.to_text(),
        REPORTED: TOLD.to_text(),
        DIGESTS: '{"image": "a"}',
    }

    marks = read_marks(job_with({GENERATION: "3"}, annotations))

    assert (marks.stop, marks.deadline, marks.reported) == (STOPPED, SENT, TOLD)
    assert (marks.generation, marks.digests) == (3, {"image": "a"})


def test_the_try_is_called_try_in_the_report() -> None:
    assert msgspec.json.decode(TOLD.to_text())["try"] == 2


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[1]", '{"cause": "boredom"}', '{"seconds": "soon"}', "null"]
)
def test_scribbles_count_as_absent(text: str) -> None:
    annotations = dict.fromkeys((STOP, DEADLINE, REPORTED), text)

    assert read_marks(job_with({GENERATION: "x"}, annotations)) == Marks()


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"image": 1}', "null"])
def test_scribbled_digests_count_as_none(text: str) -> None:
    assert read_marks(job_with({}, {DIGESTS: text})).digests == {}


def test_a_job_of_nobody_has_no_marks() -> None:
    assert read_marks(job_with({}, {})) == Marks()
