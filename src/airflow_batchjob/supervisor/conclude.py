"""What is done once a verdict is there: show why, report it on the Job, let the Job go when it may.

Nothing here changes the verdict. What fails is a warning.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec
from typing_extensions import assert_never

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.marks import read_capacity
from airflow_batchjob.core.deciding.report import achieved_text
from airflow_batchjob.core.deciding.verdict import judge
from airflow_batchjob.core.errors import ApiError, NotFoundError, SpecError
from airflow_batchjob.core.event import Cause, OnFinish, Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import REPORTED, ReportedMark
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.attempts import per_index
from airflow_batchjob.core.reading.causes import causes_text
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.core.telling.log_choice import read_log_choice
from airflow_batchjob.supervisor.older import outlive_none
from airflow_batchjob.supervisor.patches import Operation, annotate, if_held, put
from airflow_batchjob.supervisor.sideways import CONTROLLER_UID
from airflow_batchjob.supervisor.tails import Tails, gather_tails

CAUSES_SECONDS = 120.0
"""So long the end of a task waits for what pods and logs tell of failures."""

DAY_SECONDS = 24 * 3600
MET_TTL_SECONDS = DAY_SECONDS
NOT_MET_TTL_SECONDS = 7 * DAY_SECONDS

_FAILED_BY_PODS = frozenset({Cause.TOO_FEW, Cause.FAIL_JOB_RULE, Cause.DEADLINE})


async def conclude(
    client: JobClient,
    order: Order,
    verdict: Verdict,
    *,
    log: logging.Logger,
    remember: Callable[[Verdict], None] | None = None,
) -> Verdict:
    """Show failed indexes' logs, write the report, then let the Job go if that was asked for.

    Safe to repeat and to cut anywhere.

    Args:
        client: The cluster.
        order: What was asked.
        verdict: As `supervise` or `submit` gave it.
        log: Where tails of logs and warnings go.
        remember: Keeps what a later try needs, should the Job be gone by then.

    Returns:
        The verdict with whole index lists and the causes of failures, as far as they can be read.
    """
    if verdict.outcome is Outcome.NOT_OURS:
        return verdict
    keep = remember or (lambda _verdict: None)
    if verdict.cause is Cause.VANISHED:
        keep(verdict)
        return verdict
    verdict = await whole(client, order, verdict, log=log)
    if verdict.failed or verdict.cause in _FAILED_BY_PODS:
        verdict = await _with_causes(client, order, verdict, log)
    if verdict.per_index is not None:
        verdict = await _with_attempts(client, verdict, log)
    if verdict.asked is not None:
        log.info("%s: %s", verdict.job, achieved_text(verdict))
    is_reported = await _report(client, order, verdict, log)
    keep(verdict)
    if is_reported:
        await _let_go(client, order, verdict, log)
    return verdict


async def whole(client: JobClient, order: Order, verdict: Verdict, *, log: logging.Logger) -> Verdict:
    """Return `verdict` with the lists that an event had no room for, read from the Job.

    Of a Job that is gone they are unknown, and no longer cut.
    """
    if not verdict.indexes_cut:
        return verdict
    try:
        job = await client.get_job(verdict.job.namespace, verdict.job.name)
    except ApiError as error:
        log.warning("%s: the index lists could not be read again: %s", verdict.job, error)
        is_gone = isinstance(error, NotFoundError)
        return msgspec.structs.replace(verdict, indexes_cut=False) if is_gone else verdict
    if job.metadata.uid != verdict.job.uid or not read_status(job).phase.is_final:
        return verdict
    again = judge(job, order)
    # The outcome was decided once; only the lists are missing.
    return msgspec.structs.replace(
        verdict,
        succeeded_indexes=again.succeeded_indexes,
        failed_indexes=again.failed_indexes,
        not_run_indexes=again.not_run_indexes,
        indexes_cut=again.indexes_cut,
    )


async def _with_causes(client: JobClient, order: Order, verdict: Verdict, log: logging.Logger) -> Verdict:
    """Show the tails of failed indexes' logs, and return the verdict with what they and the pods say."""
    ref = verdict.job
    # Without a budget per index, and after a FailJob rule, no index is listed: then every failed pod speaks.
    failed = IndexSet.parse(verdict.failed_indexes) if order.indexed and verdict.failed else None

    async def read() -> tuple[tuple[Pod, ...], Tails]:
        pods = (await client.list_pods(ref.namespace, f"{CONTROLLER_UID}={ref.uid}")).items
        choice = read_log_choice(order.logs, order.completions)
        return pods, await gather_tails(client, pods, failed, choice, containers=order.log_containers)

    try:
        pods, tails = await asyncio.wait_for(read(), CAUSES_SECONDS)
    except (ApiError, SpecError, asyncio.TimeoutError) as error:
        words = str(error) or f"no answer within {CAUSES_SECONDS:.0f} s"
        log.warning("%s: why indexes failed can't be read from their pods: %s", ref, words)
        return verdict
    for line in tails.lines:
        log.info("%s", line)
    return msgspec.structs.replace(verdict, causes=causes_text(failed, pods, tails.last_lines))


def reported_mark(order: Order, verdict: Verdict) -> ReportedMark:
    """Return what is told of `verdict` under `order`."""
    return ReportedMark(
        verdict=verdict.outcome.value,
        try_number=order.try_number,
        retries=order.retries,
        max_tries=order.max_tries,
    )


async def _with_attempts(client: JobClient, verdict: Verdict, log: logging.Logger) -> Verdict:
    """Return the verdict with what became of each index."""
    ref = verdict.job
    try:
        job = await client.get_job(ref.namespace, ref.name)
        pods = (await client.list_pods(ref.namespace, f"{CONTROLLER_UID}={ref.uid}")).items
    except ApiError as error:
        log.warning("%s: what became of each index can't be read from its pods: %s", ref, error)
        return verdict
    told = per_index(pods, read_capacity(job).losses, time.time())
    return msgspec.structs.replace(verdict, per_index=told)


def report_of(order: Order, verdict: Verdict) -> list[Operation]:
    """Return the changes that report `verdict`, and set how long the Job stays."""
    mark = reported_mark(order, verdict)
    ttl = _ttl_seconds(order, verdict)
    return [
        annotate(REPORTED, mark.to_text()),
        *([] if ttl is None else [put("/spec/ttlSecondsAfterFinished", ttl)]),
    ]


def _ttl_seconds(order: Order, verdict: Verdict) -> int | None:
    """Return the TTL to set; None: leave it as it was sent."""
    if order.ttl_left_out:
        return None
    own = order.ttl_seconds_after_finished
    if verdict.outcome is Outcome.MET:
        return MET_TTL_SECONDS if own is None else own
    if not order.is_last_try:
        return None
    return NOT_MET_TTL_SECONDS if own is None else own


def _may_be_deleted(order: Order, verdict: Verdict) -> bool:
    met = verdict.outcome is Outcome.MET
    match order.on_finish:
        case OnFinish.KEEP:
            return False
        case OnFinish.DELETE:
            return met or order.is_last_try  # a later try resumes from a Job that was not met
        case OnFinish.DELETE_WHEN_MET:
            return met
        case _ as never:
            assert_never(never)


async def _report(client: JobClient, order: Order, verdict: Verdict, log: logging.Logger) -> bool:
    ref = verdict.job
    operations = [*if_held(ref.uid, order.holder), *report_of(order, verdict)]
    try:
        await client.patch_job(ref.namespace, ref.name, operations)
    except NotFoundError:  # its record was enough to tell
        log.info("%s is gone, so nothing is written onto it", ref)
        return False
    except ApiError as error:
        log.warning("%s: the verdict could not be written onto the Job: %s", ref, error)
        return False
    return True


async def _let_go(client: JobClient, order: Order, verdict: Verdict, log: logging.Logger) -> None:
    """Delete the Job if that was asked for, and see before that no older one outlives it."""
    ttl, deletes = _ttl_seconds(order, verdict), _may_be_deleted(order, verdict)
    await outlive_none(client, order, verdict, ttl_seconds=ttl, deletes=deletes, log=log)
    if deletes:
        await _delete(client, verdict, log)


async def _delete(client: JobClient, verdict: Verdict, log: logging.Logger) -> None:
    ref = verdict.job
    try:
        await client.delete_job(ref.namespace, ref.name, uid=ref.uid)
    except ApiError as error:
        log.warning("%s could not be deleted: %s", ref, error)
    else:
        log.info("%s is deleted, as asked", ref)
