"""A sensor at work: what it waits for, one look, and how the wait ends."""

from __future__ import annotations

from logging import Logger
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.compat import AirflowFailException
from airflow_batchjob.core.deciding.report import result_of
from airflow_batchjob.core.errors import (
    ApiError,
    ApiUnavailableError,
    JobFailedError,
    OutcomeUnknownError,
    ThresholdNotMetError,
)
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.hooks.instance import instance_name
from airflow_batchjob.sensors.parameters import check
from airflow_batchjob.supervisor.looking import Sight, Target
from airflow_batchjob.supervisor.observe import Observation, settled, verdict_of
from airflow_batchjob.tasks import TaskKey, return_value
from airflow_batchjob.triggers.owner import AirflowOwner
from airflow_batchjob.triggers.sensor import Sighting, Wait
from airflow_batchjob.triggers.telling import waiting_words

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.core.event import Verdict
    from airflow_batchjob.sensors.batchjob import BatchJobSensor


def settings_of(given: BatchJobSensor) -> ClusterSettings:
    """Return which cluster it is; for code outside an event loop."""
    return BatchJobHook(given.kubernetes_conn_id).settings()


def wait_for(given: BatchJobSensor, context: Context) -> Wait:
    """Return what the sensor waits for, all templates rendered.

    Raises:
        SpecError: A rendered value makes no sense.
    """
    check(given)
    instance = instance_name()
    wait = Wait(target=Target(), instance=instance, until=given.until, max_failed=given.max_failed)
    namespace = given.namespace or ""
    if not given.of_task:
        target = Target(namespace=namespace, name=given.name or "", label_selector=given.label_selector or "")
        return Wait(target=target, instance=instance, until=wait.until, max_failed=wait.max_failed)
    ti = context["ti"]
    owner = TaskKey(
        given.of_dag or ti.dag_id, given.of_run_id or ti.run_id, given.of_task, int(given.of_map_index)
    )
    identity = TaskIdentity(instance, owner.dag_id, owner.run_id, owner.task_id, owner.map_index)
    return Wait(
        target=Target(namespace=namespace or stated_namespace(owner, context), identity=identity.digest),
        instance=instance,
        owner=owner,
        until=wait.until,
        max_failed=wait.max_failed,
    )


def stated_namespace(owner: TaskKey, context: Context) -> str:
    """Return the namespace that the owning task's parameters or manifest name; "" where none does.

    Only a task of the same DAG can be asked. For one of another DAG, give `namespace`.
    """
    dag = context["dag"]
    operator = dag.task_dict.get(owner.task_id) if dag.dag_id == owner.dag_id else None
    ask = getattr(operator, "stated_namespace", None)
    return "" if ask is None else ask(context) or ""


async def look_once(settings: ClusterSettings, wait: Wait, *, log: Logger) -> Observation | None:
    """Look at the cluster once; None: wait on.

    Raises:
        OutcomeUnknownError: There is no Job, and none will come.
        ApiError: The API could not be asked.
    """
    async with await connect(settings) as client:
        sight = Sight(client, wait.target)
        jobs = await sight.read()
        seen = await settled(jobs, sight.read, wait.aim, AirflowOwner(wait.instance, wait.owner))
    if seen is None:
        log.info("%s", waiting_words(jobs, wait.whose))
    return seen


async def result_for(settings: ClusterSettings, wait: Wait, seen: Observation) -> dict[str, Any]:
    """Return what the sensor returns: what the operator does, its index lists whole."""
    if seen.verdict is None:  # the Job is gone, and its task's own result is all there is
        told = seen.told or await return_value(wait.owner) if wait.owner else seen.told
        if not isinstance(told, dict):
            raise OutcomeUnknownError("The result of the task that owned the Job is gone")
        return told
    return result_of(await _whole(settings, seen.verdict))


async def _whole(settings: ClusterSettings, verdict: Verdict) -> Verdict:
    if not verdict.indexes_cut:
        return verdict
    try:
        async with await connect(settings) as client:
            job = await client.get_job(verdict.job.namespace, verdict.job.name)
    except ApiError:
        return verdict
    if job.metadata.uid != verdict.job.uid:
        return verdict
    return msgspec.structs.replace(verdict_of(job, verdict.outcome), outcome=verdict.outcome)


def seen_by_trigger(event: dict[str, Any]) -> Observation:
    """Return what a trigger's event says.

    Raises:
        OutcomeUnknownError: There is no Job, and none will come.
        ApiUnavailableError: The wait failed; trying again may help.
        AirflowFailException: The wait failed for good.
    """
    sighting = msgspec.convert(event, Sighting)
    if sighting.seen is not None:
        return sighting.seen
    if sighting.is_about_job:
        raise OutcomeUnknownError(sighting.error)
    if sighting.may_retry:
        raise ApiUnavailableError("watch the Job in the triggerer", message=sighting.error)
    raise AirflowFailException(sighting.error)


def error_for(seen: Observation) -> JobFailedError | None:
    """Return what the sensor raises; None where the aim is met."""
    return None if seen.met else ThresholdNotMetError(seen.why)
