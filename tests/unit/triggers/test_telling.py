"""A sensor's log says what it waits for, without repeating itself at every look."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.triggers.telling import told, waiting_words

WHOSE = "nightly.embed of run r"


def a_job(**status: Any) -> Job:
    plain = {
        "metadata": {"name": "embed-3f2a", "namespace": "jobs", "uid": "u"},
        "spec": {"completions": 8, "completionMode": "Indexed"},
        "status": status,
    }
    return msgspec.convert(plain, Job)


SEEN: dict[str, tuple[list[Job], str]] = {
    "no Job": ([], f"Waits: no Job yet of {WHOSE}"),
    "one at work": (
        [a_job(completedIndexes="0-2", succeeded=3, failedIndexes="3")],
        "Waits: Job jobs/embed-3f2a has 3 of 8 succeeded, 1 failed",
    ),
    "one that ended": (
        [a_job(completedIndexes="0-2", succeeded=3, conditions=[{"type": "Failed", "status": "True"}])],
        "Waits: Job jobs/embed-3f2a has 3 of 8 succeeded, ended; its task may run another",
    ),
}


def test_says_what_there_is():
    assert {case: waiting_words(jobs, WHOSE) for case, (jobs, _) in SEEN.items()} == {
        case: want for case, (_, want) in SEEN.items()
    }


async def passed(looks: int, caplog: Any, every_seconds: float) -> list[str]:
    async def views() -> AsyncIterator[list[Job]]:
        for _ in range(looks):
            yield []

    caplog.set_level(logging.INFO)
    log = logging.getLogger("sensor")
    assert [jobs async for jobs in told(views(), WHOSE, log, every_seconds=every_seconds)] == [[]] * looks
    return [record.getMessage() for record in caplog.records if record.name == "sensor"]


async def test_says_it_once_an_hour(caplog):
    assert await passed(3, caplog, 3_600) == [f"Waits: no Job yet of {WHOSE}"]


async def test_says_it_again_when_it_is_due(caplog):
    assert len(await passed(3, caplog, 0)) == 3
