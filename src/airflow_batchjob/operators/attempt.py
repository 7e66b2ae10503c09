"""One try of a task in the worker: from rendered parameters to an order, or to an end.

Everything here runs in the task's process. What needs time (seeing a Job through) is the supervisor's,
which runs here only where the task doesn't defer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from logging import Logger
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.compat import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferralTimeout,
)
from airflow_batchjob.core.errors import DeadlineError, JobFailedError, Problem, SpecError, TaskCutError
from airflow_batchjob.core.event import Cause, Order, Verdict
from airflow_batchjob.core.manifest import Built, build
from airflow_batchjob.core.marks import identity_selector, read_marks
from airflow_batchjob.core.names import TaskIdentity
from airflow_batchjob.core.record import Record
from airflow_batchjob.core.status import read_status
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.hooks.instance import warn_of_default_instance
from airflow_batchjob.operators.parameters import spec_of
from airflow_batchjob.operators.remembering import stored_record
from airflow_batchjob.operators.requesting import holder_of, identity_of, request_for
from airflow_batchjob.operators.running import Cut, Runner
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.tasks import TaskKey, logger_of
from airflow_batchjob.triggers.killing import PATIENCE_SECONDS, reason_to_stop, stop_in_time

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.client.protocol import JobClient
    from airflow_batchjob.core.capacity import Capacity
    from airflow_batchjob.core.machine import Machine
    from airflow_batchjob.operators.batchjob import BatchJobOperator


_BACKSTOP_AFTER = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one try asks, of which cluster, under which name in Airflow."""

    task: TaskKey
    request: Request
    settings: ClusterSettings
    runner: Runner
    log: Logger
    record: Record | None = None
    """What an earlier try has kept of its Job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A Job that has ended, and what was ordered of it."""

    order: Order
    verdict: Verdict


def built(given: BatchJobOperator) -> Built:
    """Build the Job from the rendered parameters.

    Raises:
        SpecError: With every problem at once.
    """
    spec = spec_of(given, machine=_machine(given), capacity=_capacity(given))
    return build(spec, default_name=TaskIdentity("", given.dag_id, "", given.task_id).stem)


def begin(given: BatchJobOperator, job: Built, context: Context, runner: Runner) -> Attempt:
    """Collect what a try needs, before any event loop runs: Airflow is asked synchronously here."""
    settings = BatchJobHook(given.kubernetes_conn_id).settings()
    return Attempt(
        task=TaskKey.of(context["ti"]),
        request=request_for(given, job, context),
        settings=settings,
        runner=runner,
        log=logger_of(given),
        record=stored_record(context),
    )


async def submit_job(attempt: Attempt) -> Order | Ended:
    """Submit, attach, or find it ended; a kill meanwhile stops what this try has brought about."""
    async with await connect(attempt.settings) as client:
        warn_of_default_instance(attempt.request.identity.instance, client.server)
        submitting = asyncio.ensure_future(
            submit(client, attempt.request, log=attempt.log, record=attempt.record)
        )
        try:
            answer = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait({submitting}, timeout=PATIENCE_SECONDS)
            submitting.cancel()
            known = submitting.result() if done and submitting.exception() is None else None
            await _leave(client, attempt, known if isinstance(known, Order) else None)
            raise
    if isinstance(answer, Verdict):
        return Ended(order=attempt.request.order(answer.job, answer.generation), verdict=answer)
    return answer


def leave_if_cut(attempt: Attempt, order: Order) -> None:
    """Where a kill came between two coroutines, see to the Job, and end the task."""
    if attempt.runner.cut is None:
        return

    async def leave() -> None:
        async with await connect(attempt.settings) as client:
            await _leave(client, attempt, order)

    Runner().run(leave())
    raise attempt.runner.error()


async def wait_here(attempt: Attempt, order: Order) -> Ended:
    """See the Job through in the worker."""
    async with await connect(attempt.settings) as client:
        try:
            verdict = await supervise(client, order, log=attempt.log)
        except asyncio.CancelledError:
            await _leave(client, attempt, order)
            raise
    return Ended(order=order, verdict=verdict)


@contextmanager
def nothing_left_behind(
    given: BatchJobOperator, context: Context, settings: ClusterSettings | None = None
) -> Iterator[None]:
    """Where a try fails without its Job having ended, and nobody will come back for it: stop it.

    As long as a try is left, the Job goes on: that try attaches to it.
    """
    try:
        yield
    except TaskDeferralTimeout as error:
        reason = "Airflow's execution_timeout has passed"
        _stop_ours(given, context, settings, reason, Cause.EXECUTION_TIMEOUT)
        raise DeadlineError(f"{reason}, and no triggerer saw to it") from error
    except (SpecError, JobFailedError, TaskCutError, AirflowSkipException):
        raise  # nothing runs, or it was seen to
    except Exception as error:
        is_last = isinstance(error, AirflowFailException) or not getattr(error, "retryable", True)
        if is_last or context["ti"].try_number > context["ti"].max_tries:
            _stop_ours(given, context, settings, f"the task failed: {error}"[:300], Cause.STOPPED)
        raise


def _stop_ours(
    given: BatchJobOperator, context: Context, settings: ClusterSettings | None, reason: str, cause: Cause
) -> None:
    """Stop what still runs; only the cluster knows it where Airflow resumes a task merely to fail it."""
    try:
        namespace = built(given).namespace
    except SpecError:  # templates may render otherwise now
        namespace = given.namespace
    ti = context["ti"]
    mine = _Mine(identity_of(TaskKey.of(ti)).digest, holder_of(ti), namespace)

    async def stop_found() -> None:
        known = settings or BatchJobHook(given.kubernetes_conn_id).settings()
        async with await connect(known) as client:
            await _stop_found(client, mine, reason=reason, cause=cause, log=logger_of(given))

    try:
        Runner().run(stop_found())
    except Exception as error:  # noqa: BLE001  # the task fails of something else, which must be told
        given.log.warning("A Job of this try may still run, it could not be stopped: %s", error)


def job_facts(order: Order) -> dict[str, Any]:
    """Return what names the Job, known as soon as it is submitted."""
    return {"job_name": order.job.name, "job_namespace": order.job.namespace, "job_uid": order.job.uid}


def defer(given: BatchJobOperator, context: Context, order: Order) -> NoReturn:
    """Hand the Job over to the triggerer."""
    from airflow_batchjob.triggers.batchjob import BatchJobTrigger

    given.defer(
        trigger=BatchJobTrigger(kubernetes_conn_id=given.kubernetes_conn_id, order=order.to_json_types()),
        method_name=given.resume.__name__,
        timeout=_backstop(given, context),
    )


def _backstop(given: BatchJobOperator, context: Context) -> timedelta | None:
    # The trigger's own clock comes first. This is for when no triggerer runs.
    if given.execution_timeout is None:
        return None
    end = context["ti"].start_date + given.execution_timeout + _BACKSTOP_AFTER
    return max(end - datetime.now(tz=timezone.utc), _BACKSTOP_AFTER)


async def _leave(client: JobClient, attempt: Attempt, order: Order | None) -> None:
    if attempt.runner.cut is Cut.TIMED_OUT:
        reason, cause = "Airflow's execution_timeout has passed", Cause.EXECUTION_TIMEOUT
    else:
        is_last = attempt.request.try_number > attempt.request.max_tries
        reason, cause = await reason_to_stop(attempt.task, attempt.log, is_last_try=is_last), Cause.STOPPED
    if not reason:
        return
    if order is None:
        request = attempt.request
        mine = _Mine(request.identity.digest, request.holder, request.namespace)
        await _stop_found(client, mine, reason=reason, cause=cause, log=attempt.log)
        return
    await stop_in_time(client, order.job, holder=order.holder, reason=reason, cause=cause, log=attempt.log)


class _Mine(NamedTuple):
    identity: str
    holder: str
    namespace: str | None


async def _stop_found(client: JobClient, mine: _Mine, *, reason: str, cause: Cause, log: Logger) -> None:
    page = await client.list_jobs(mine.namespace or client.namespace, identity_selector(mine.identity))
    for job in page.items:
        if read_marks(job).holder == mine.holder and not read_status(job).phase.is_final:
            await stop_in_time(client, job.ref, holder=mine.holder, reason=reason, cause=cause, log=log)


def _machine(given: BatchJobOperator) -> Machine | None:
    machine = given.machine
    if not isinstance(machine, str) or "=" in machine:
        return None  # as it is
    return BatchJobHook(given.kubernetes_conn_id).machine(machine)


def _capacity(given: BatchJobOperator) -> Capacity | None:
    """Return the capacity that is asked for, with the cluster's own names for it."""
    if given.capacity is None:
        return None
    from airflow_batchjob.core.capacity import Capacity, choice_of

    choice = choice_of(given.capacity)
    if isinstance(choice, Problem):
        raise SpecError(choice)
    return Capacity(choice=choice, profiles=BatchJobHook(given.kubernetes_conn_id).profiles())
