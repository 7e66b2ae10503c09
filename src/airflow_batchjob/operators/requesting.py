"""What one try asks for: the operator's parameters and Airflow's context as a `Request`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_batchjob.compat import incarnation, remembers
from airflow_batchjob.core.event import OnFinish
from airflow_batchjob.core.identity.identity import Again
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.hooks.instance import instance_name
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.tasks import TaskKey

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.core.request.manifest import Built
    from airflow_batchjob.operators.batchjob import BatchJobOperator

OURS_BEFORE_AIRFLOWS_SECONDS, OURS_BEFORE_AIRFLOWS_SHARE = 10.0, 0.25
"""So much earlier than Airflow's own alarm fires our clock: time to stop the Job and to say so.

Of a short timeout it is a share: most of the time is the Job's.
"""


def request_for(given: BatchJobOperator, job: Built, context: Context) -> Request:
    """Return the request of this try."""
    ti = context["ti"]
    return Request(
        manifest=job.manifest,
        thresholds=job.thresholds,
        identity=identity_of(TaskKey.of(ti)),
        holder=holder_of(ti),
        incarnation=incarnation(context) or "",
        namespace=job.namespace,
        try_number=ti.try_number,
        retries=given.retries or 0,
        max_tries=ti.max_tries,
        on_retry=Again(given.on_retry),
        on_clear=Again(given.on_clear),
        wall_clock_end=wall_clock_end(given, context),
        on_finish=OnFinish(given.on_finish),
        ttl_seconds_after_finished=job.ttl_seconds_after_finished,
        ttl_left_out=job.ttl_left_out,
        logs=given.logs,
        log_containers=None if given.log_containers is None else tuple(given.log_containers),
        remembers=remembers(context),
        logical_date=logical_date(context),
        resume_key=None if given.resume_key is None else str(given.resume_key),
    )


def logical_date(context: Context) -> str:
    """Return the logical date of the DAG run in ISO 8601; "" where it has none."""
    date = dict(context).get("logical_date")
    return date.isoformat() if isinstance(date, datetime) else ""


def holder_of(ti: Any) -> str:
    """Return who acts on a Job: this task instance, in this try."""
    return f"{ti.id}/{ti.try_number}"


def identity_of(task: TaskKey) -> TaskIdentity:
    """Return whose Job it is, among all that use the cluster."""
    return TaskIdentity(instance_name(), task.dag_id, task.run_id, task.task_id, task.map_index)


def wall_clock_end(given: BatchJobOperator, context: Context) -> float | None:
    """Return when the try must end, in epoch seconds: the execution timeout, counted from the task's start.

    Airflow keeps a task's start through deferrals, so a resumed task has the same end.
    """
    if given.execution_timeout is None:
        return None
    seconds = given.execution_timeout.total_seconds()
    start = context["ti"].start_date.timestamp()
    margin = min(OURS_BEFORE_AIRFLOWS_SECONDS, seconds * OURS_BEFORE_AIRFLOWS_SHARE)
    return float(start + seconds - margin)
