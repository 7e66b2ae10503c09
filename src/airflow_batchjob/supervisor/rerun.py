"""A person asks for indexes of a Job that is over: written onto the Job, for the task's next start to see."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiConflictError, NotFoundError, Problem, SpecError
from airflow_batchjob.core.identity.clearing import how_to_clear
from airflow_batchjob.core.identity.identity import newest_first
from airflow_batchjob.core.identity.marks import OURS, RERUN, RerunMark, identity_selector, read_marks
from airflow_batchjob.core.identity.resuming import asked_indexes, done_indexes
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.patches import Operation, annotate, put

_KEPT_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequest:
    """What was written, and what is left to do.

    Attributes:
        job: The newest Job, which carries the request.
        indexes: What will run.
        completions: Of the Job.
        succeeded: How many are done so far.
        then: How to start the task, as a command where there is one.
    """

    job: JobRef
    indexes: IndexSet
    completions: int
    succeeded: int
    then: str


async def request_rerun(
    client: JobClient,
    name: str,
    indexes: str,
    *,
    namespace: str | None = None,
    by: str = "",
    clock: Callable[[], float] = time.time,
) -> RerunRequest:
    """Ask for indexes of a Job that is over; they run when its task starts the next time.

    Args:
        client: The cluster.
        name: Of any Job of the task instance.
        indexes: "failed", "rest" (all that is not done), "all", or numbers and ranges such as "3,7-9".
        namespace: Of the Job; None: the client's.
        by: Who asks, for the log.
        clock: Epoch seconds.

    Raises:
        SpecError: There is no such Job, it is not ours or not over, or it has no such indexes.
        ApiError: The API could not be asked, or refused.
    """
    where = namespace or client.namespace
    job, jobs = await _newest(client, where, name)
    request = RerunMark(indexes=indexes.strip(), by=by, at=clock())
    completions = job.spec.completions
    if job.spec.completion_mode != "Indexed" or completions is None:
        raise _problem(name, "it is not Indexed, so it can't be run again in part", "Clear its task instead")
    done = done_indexes(job, jobs)
    asked = asked_indexes(request, job, done, completions)
    await client.patch_job(where, job.metadata.name, _operations(job, request, clock()))
    now, _ = await _newest(client, where, name)
    if now.metadata.uid != job.metadata.uid:
        raise ApiConflictError(
            f"ask for indexes of Job {job.ref}",
            code=409,
            reason="Conflict",
            message=f"{now.ref} took its place",
        )
    return RerunRequest(
        job=job.ref, indexes=asked, completions=completions, succeeded=done.count, then=how_to_clear(job)
    )


async def _newest(client: JobClient, namespace: str, name: str) -> tuple[Job, list[Job]]:
    """Return the newest Job of the task instance, which is over, and all that are there."""
    try:
        job = await client.get_job(namespace, name)
    except NotFoundError:
        why = f"there is no such Job in namespace {namespace}"
        raise _problem(name, why, "Clear its task: that runs everything") from None
    marks = read_marks(job)
    if marks.managed_by != OURS or not marks.identity:
        raise _problem(name, "it is not a Job of airflow-batchjob", "Name one of `batchjob`'s own")
    jobs = newest_first((await client.list_jobs(namespace, identity_selector(marks.identity))).items)
    newest = jobs[0] if jobs else job
    if not read_status(newest).phase.is_final:
        raise _problem(
            name,
            f"{newest.metadata.name} has not ended: it is {read_status(newest).phase.value}",
            "Wait for its end, or stop it first",
        )
    return newest, jobs


def _operations(job: Job, request: RerunMark, now: float) -> list[Operation]:
    """Return the patch; an ended Job stays for a day more, or the request would go with it."""
    ttl, ended_at = job.spec.ttl_seconds_after_finished, read_status(job).ended_at
    operations: list[Operation] = [
        {"op": "test", "path": "/metadata/uid", "value": job.metadata.uid},
        annotate(RERUN, request.to_text()),
    ]
    if ttl is not None and ended_at is not None:
        needed = int(now - ended_at.timestamp()) + _KEPT_SECONDS
        if ttl < needed:
            operations.append(put("/spec/ttlSecondsAfterFinished", needed))
    return operations


def _problem(name: str, why: str, mend: str) -> SpecError:
    return SpecError(Problem("NAME", name, why, mend))
