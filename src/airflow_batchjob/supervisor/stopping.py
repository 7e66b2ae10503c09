"""Stopping is not deleting: the Job ends, keeps what it has done, and holds nothing any more.

`activeDeadlineSeconds: 0` ends it at once; why stands in an annotation that is written with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, NotFoundError
from airflow_batchjob.core.event import Cause
from airflow_batchjob.core.identity.marks import HOLDER, STOP, StopMark, read_marks
from airflow_batchjob.core.identity.stopped import is_stopped
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.patches import (
    Operation,
    annotate,
    if_held,
    if_unchanged,
    is_changed_meanwhile,
    put,
)

_MOST_ATTEMPTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopping:
    ref: JobRef
    holder: str
    new_holder: str | None
    mark: str


async def stop(  # noqa: PLR0913  each says something of its own, and all but two are by name
    client: JobClient,
    ref: JobRef,
    *,
    holder: str,
    reason: str,
    cause: Cause = Cause.STOPPED,
    new_holder: str | None = None,
    clock: Callable[[], float] = time.time,
) -> bool:
    """Stop the Job `ref`, if it still runs and is held by `holder`. Safe to repeat and to cut anywhere.

    A Job that never started and waits in a queue is deleted instead: unsuspending it would push it
    past the queue, and nothing is lost.

    Args:
        client: The cluster.
        ref: The Job; another of the same name is left alone.
        holder: Who may act on it.
        reason: In words, for the annotation and the error.
        cause: What the stop counts as.
        new_holder: Who takes it over in the same request, if anyone.
        clock: Epoch seconds.

    Returns:
        True if the Job is stopped by this call or was before; False if there was nothing to stop:
        it has ended, is gone, is another, or has another holder.

    Raises:
        ApiError: The API could not be asked, or refused.
    """
    mark = StopMark(cause=cause, words=reason, at=clock())
    stopping = _Stopping(ref=ref, holder=holder, new_holder=new_holder, mark=mark.to_text())
    seen: Job | None = None  # the first request is sent without a read
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        try:
            job = await _send(client, stopping, seen)
        except NotFoundError:
            return False
        except ApiError as error:
            if not is_changed_meanwhile(error) or attempt == _MOST_ATTEMPTS:
                raise
        else:
            return job is None or not read_status(job).phase.is_final
        seen = await _read(client, ref)
        if seen is None or read_marks(seen).holder not in {holder, new_holder}:
            return False
        if read_status(seen).phase.is_final:
            return False
        if is_stopped(seen):
            return True
    return False


async def _send(client: JobClient, stopping: _Stopping, seen: Job | None) -> Job | None:
    """Send the stop that fits what was seen; return the Job as it is then, None if it was deleted."""
    ref = stopping.ref
    told: list[Operation] = [annotate(STOP, stopping.mark)]
    if stopping.new_holder is not None:
        told.append(annotate(HOLDER, stopping.new_holder))
    if seen is None:
        running = {"op": "test", "path": "/spec/suspend", "value": False}
        guard = [*if_held(ref.uid, stopping.holder), running]
        ending = [put("/spec/activeDeadlineSeconds", 0)]
    else:
        guard = if_unchanged(seen)
        if _waits_in_queue(seen):
            await client.patch_job(ref.namespace, ref.name, [*guard, *told])
            await client.delete_job(ref.namespace, ref.name, uid=ref.uid)
            return None
        ending = [put("/spec/activeDeadlineSeconds", 0), put("/spec/suspend", value=False)]
    return await client.patch_job(ref.namespace, ref.name, [*guard, *ending, *told])


def _waits_in_queue(job: Job) -> bool:
    status = job.status
    untouched = status.start_time is None and not (status.active or status.succeeded or status.failed)
    return job.spec.suspend and bool(read_marks(job).queue) and untouched


async def _read(client: JobClient, ref: JobRef) -> Job | None:
    try:
        job = await client.get_job(ref.namespace, ref.name)
    except NotFoundError:
        return None
    return job if job.metadata.uid == ref.uid else None
