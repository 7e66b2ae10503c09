"""What becomes of older generations once the newest has been reported: none of them outlives it.

Whoever starts next takes the newest Job that is left for the newest that there was. A failed one that
stays a week would stand in for its successor that was met and is gone after a day.
"""

from __future__ import annotations

import logging

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, NotFoundError
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.marks import OURS, identity_selector, read_marks
from airflow_batchjob.core.identity.runs import is_of_another_run
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.patches import Operation, put


async def outlive_none(
    client: JobClient,
    order: Order,
    verdict: Verdict,
    *,
    ttl_seconds: int | None,
    deletes: bool,
    log: logging.Logger,
) -> None:
    """See that older generations go no later than the Job of `verdict`. Trouble is a warning.

    Args:
        client: The cluster.
        order: What was asked.
        verdict: Of the newest generation, reported.
        ttl_seconds: Of the newest, from its end; None: as long as it likes.
        deletes: The newest is deleted next.
        log: Gets the warnings.
    """
    if verdict.generation == 0 or (ttl_seconds is None and not deletes):
        return
    try:
        page = await client.list_jobs(verdict.job.namespace, identity_selector(order.identity))
        newest = next((job for job in page.items if job.metadata.uid == verdict.job.uid), None)
        if newest is None:
            return
        for job in page.items:
            if not _is_before(job, newest, order.holder):
                continue
            if deletes:
                await client.delete_job(job.metadata.namespace, job.metadata.name, uid=job.metadata.uid)
            elif ttl_seconds is not None:
                await _shorten(client, job, newest, ttl_seconds)
    except ApiError as error:
        log.warning("%s: older Jobs of the task may stay longer than this one: %s", verdict.job, error)


def _is_before(job: Job, newest: Job, holder: str) -> bool:
    """Tell whether `job` is an older generation of the same run, and over."""
    marks, newest_marks = read_marks(job), read_marks(newest)
    if marks.managed_by != OURS or marks.generation >= newest_marks.generation:
        return False
    other = is_of_another_run(marks, incarnation=newest_marks.incarnation, holder=holder)
    return read_status(job).phase.is_final and not other


async def _shorten(client: JobClient, job: Job, newest: Job, ttl_seconds: int) -> None:
    """Let `job` go when `newest` goes, if it would stay longer."""
    ended, newest_ended = read_status(job).ended_at, read_status(newest).ended_at
    between = 0.0 if ended is None or newest_ended is None else (newest_ended - ended).total_seconds()
    due, there = ttl_seconds + max(0, int(between)), job.spec.ttl_seconds_after_finished
    if there is not None and there <= due:
        return
    operations: list[Operation] = [
        {"op": "test", "path": "/metadata/uid", "value": job.metadata.uid},
        put("/spec/ttlSecondsAfterFinished", due),
    ]
    try:
        await client.patch_job(job.metadata.namespace, job.metadata.name, operations)
    except NotFoundError:
        return
