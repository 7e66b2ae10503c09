"""A sensor says what it waits for: at its first look, and once an hour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from logging import Logger

from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.observe import Jobs, newest

EVERY_SECONDS = 3_600.0


def waiting_words(jobs: Jobs, whose: str) -> str:
    """Return what there is to wait for, in a line.

    Args:
        jobs: What a look has shown.
        whose: Whose Job it is, or which.
    """
    job = newest(jobs)
    if job is None:
        return f"Waits: no Job yet of {whose}"
    status = read_status(job)
    of = "" if status.completions is None else f" of {status.completions:,}"
    failed = f", {status.failed:,} failed" if status.failed else ""
    ended = ", ended; its task may run another" if status.phase.is_final else ""
    return f"Waits: Job {job.ref} has {status.succeeded:,}{of} succeeded{failed}{ended}"


async def told(
    looks: AsyncIterator[Jobs], whose: str, log: Logger, *, every_seconds: float = EVERY_SECONDS
) -> AsyncGenerator[Jobs, None]:
    """Pass looks on, and say now and then what was seen."""
    clock = asyncio.get_running_loop().time
    due = clock()
    async for jobs in looks:
        if clock() >= due:
            due = clock() + every_seconds
            log.info("%s", waiting_words(jobs, whose))
        yield jobs
