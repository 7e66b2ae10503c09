"""A Job that is over within seconds is seen through in the worker; only a longer one is handed over.

To hand a task over to the triggerer and back takes longer than such a Job. And Airflow marks a task
failed that comes back before its scheduler has heard of the end of the process that deferred it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from airflow_batchjob.client.config import connect
from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.reading.status import phase_of
from airflow_batchjob.operators.attempt import Attempt, Ended, defer, wait_here
from airflow_batchjob.operators.leaving import leave_if_ended
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.supervisor.watch import subscribe

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.client.protocol import JobClient
    from airflow_batchjob.core.event import Order
    from airflow_batchjob.core.reading.job import JobRef
    from airflow_batchjob.operators.batchjob import BatchJobOperator

log = logging.getLogger(__name__)

SECONDS_BEFORE_DEFERRING = 5.0
"""Longer than the shortest Jobs take on a cluster, and about what a deferral costs."""

_TELLING_SECONDS = 30.0
"""For what is said of a Job that has ended. One that makes way for another takes longer: hand it over."""

_MEND = f"{SECONDS_BEFORE_DEFERRING:.0f} it is. Write e.g. 5, or 0: defer at once"


def see_through(  # noqa: RET503  defer() does not return
    given: BatchJobOperator, context: Context, attempt: Attempt, order: Order
) -> Ended:
    """Wait for the Job's end here, or for a few seconds here and then in the triggerer.

    Raises:
        TaskDeferred: The Job takes longer, and the triggerer is to see to it.
    """
    if not given.deferrable:
        return attempt.runner.run(wait_here(attempt, order))
    ended = attempt.runner.run(_wait_briefly(attempt, order, seconds_before_deferring()))
    if ended is not None:
        return ended
    leave_if_ended(attempt)
    defer(given, context, order)


def seconds_before_deferring() -> float:
    """Return the setting `[batchjob] seconds_before_deferring`; 0: defer at once."""
    from airflow.configuration import conf

    said = str(conf.get("batchjob", "seconds_before_deferring", fallback="") or "").strip()
    try:
        return float(said) if said else SECONDS_BEFORE_DEFERRING
    except ValueError:  # no reason to fail a task whose Job runs by now
        log.warning("[batchjob] seconds_before_deferring=%r is not a number: %s", said, _MEND)
        return SECONDS_BEFORE_DEFERRING


async def ends_within(client: JobClient, job: JobRef, seconds: float) -> bool:
    """Tell whether a Job ends, or vanishes, within so many seconds.

    Raises:
        ApiError: Jobs can't be read.
    """
    due = time.monotonic() + seconds
    async with subscribe(client, job) as view:
        while (left := due - time.monotonic()) > 0:
            seen = await view.next(left)
            if seen is not None and (seen.gone or seen.job is None or phase_of(seen.job).is_final):
                return True
    return False


async def _wait_briefly(attempt: Attempt, order: Order, seconds: float) -> Ended | None:
    if seconds <= 0:
        return None
    try:
        async with await connect(attempt.settings) as client:
            if not await ends_within(client, order.job, seconds):
                return None
            telling = supervise(client, order, log=attempt.log)
            return Ended(order=order, verdict=await asyncio.wait_for(telling, _TELLING_SECONDS))
    except (ApiError, asyncio.TimeoutError):  # the triggerer has more time for both
        return None
