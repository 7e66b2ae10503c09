"""One try of a task in the worker: from rendered parameters to an order, or to an end.

Everything here runs in the task's process. What needs time (seeing a Job through) is the supervisor's,
which runs here only where the task doesn't defer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from logging import Logger
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.compat import AirflowSkipException
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.request.manifest import Built, build
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.hooks.instance import warn_of_default_instance
from airflow_batchjob.operators.parameters import spec_of
from airflow_batchjob.operators.remembering import stored_record
from airflow_batchjob.operators.requesting import request_for
from airflow_batchjob.operators.running import Runner
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.tasks import TaskKey, logger_of
from airflow_batchjob.triggers.killing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.core.capacity.capacity import Capacity
    from airflow_batchjob.core.sharing.machine import Machine
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


def begin(given: BatchJobOperator, context: Context, runner: Runner) -> Attempt:
    """Collect what a try needs, before any event loop runs: Airflow is asked synchronously here.

    Raises:
        SpecError: With every problem at once.
        AirflowSkipException: There is nothing to do.
    """
    job = built(given)
    if job.nothing_to_do:
        raise AirflowSkipException("completions=0: there is nothing to do")
    log = logger_of(given)
    for note in job.notes:
        log.info("Job: %s", note)
    settings = BatchJobHook(given.kubernetes_conn_id).settings()
    return Attempt(
        task=TaskKey.of(context["ti"]),
        request=request_for(given, job, context),
        settings=settings,
        runner=runner,
        log=log,
        record=stored_record(context),
    )


async def submit_job(attempt: Attempt) -> Order | Ended:
    """Submit, attach, or find it ended. A kill meanwhile lets a request that is under way come to its end."""
    async with await connect(attempt.settings) as client:
        warn_of_default_instance(attempt.request.identity.instance, client.server)
        submitting = asyncio.ensure_future(
            submit(client, attempt.request, log=attempt.log, record=attempt.record)
        )
        try:
            answer = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            await asyncio.wait({submitting}, timeout=PATIENCE_SECONDS)
            submitting.cancel()
            raise
    if isinstance(answer, Verdict):
        return Ended(order=attempt.request.order(answer.job, answer.generation), verdict=answer)
    return answer


async def wait_here(attempt: Attempt, order: Order) -> Ended:
    """See the Job through in the worker."""
    async with await connect(attempt.settings) as client:
        verdict = await supervise(client, order, log=attempt.log)
    return Ended(order=order, verdict=verdict)


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


def _machine(given: BatchJobOperator) -> Machine | None:
    machine = given.machine
    if not isinstance(machine, str) or "=" in machine:
        return None  # as it is
    return BatchJobHook(given.kubernetes_conn_id).machine(machine)


def _capacity(given: BatchJobOperator) -> Capacity | None:
    """Return the capacity that is asked for, with the cluster's own names for it."""
    if given.capacity is None:
        return None
    from airflow_batchjob.core.capacity.capacity import Capacity, choice_of

    choice = choice_of(given.capacity)
    if isinstance(choice, Problem):
        raise SpecError(choice)
    return Capacity(choice=choice, profiles=BatchJobHook(given.kubernetes_conn_id).profiles())
