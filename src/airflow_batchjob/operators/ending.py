"""After the end: the report on the Job, the result, and what the task raises."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_batchjob.client.config import connect
from airflow_batchjob.compat import AirflowSkipException
from airflow_batchjob.core.deciding.report import error_for, result_of
from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.event import Cause, Order, Verdict
from airflow_batchjob.core.request.policies import SKIP, read_exit_codes
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.operators.remembering import keeper
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.second_look import second_look
from airflow_batchjob.tasks import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.operators.batchjob import BatchJobOperator

# "Container main for pod ns/x-abc failed with exit code 99 matching FailJob rule at index 0"
_EXIT_CODE = re.compile(r"exit code (\d+)")


@dataclass(frozen=True, slots=True)
class Ending:
    """What a task returns, and what it raises instead once that is pushed."""

    result: dict[str, Any]
    error: Exception | None


def settings_of(given: BatchJobOperator) -> ClusterSettings:
    """Return which cluster the operator's connection names; for code outside an event loop."""
    return BatchJobHook(given.kubernetes_conn_id).settings()


async def conclude_job(
    given: BatchJobOperator, context: Context, settings: ClusterSettings, order: Order, verdict: Verdict
) -> Ending:
    """Report the verdict on the Job, and say how the task ends. Safe to repeat.

    Raises:
        OtherClusterError: The Job that is said to be gone is there, and alive.
    """
    keep = keeper(context, order)
    log = logger_of(given)
    try:
        async with await connect(settings) as client:
            verdict = await second_look(client, order, verdict, log=log)
            told = await conclude(client, order, verdict, log=log, remember=keep)
    except ApiError as trouble:  # how the Job ended stands, reported or not
        log.warning("The verdict could not be written onto Job %s: %s", verdict.job, trouble)
        told = verdict
        keep(told)
    error = skip_for(told, given.exit_codes or {}) or error_for(told, order)
    return Ending(result_of(told), error)


def skip_for(verdict: Verdict, exit_codes: Mapping[str, Any]) -> AirflowSkipException | None:
    """Return what skips the task, if the one pod that there is exited with a code that means that."""
    if verdict.cause is not Cause.FAIL_JOB_RULE:
        return None
    found = _EXIT_CODE.search(verdict.message)
    if found is None or int(found[1]) not in read_exit_codes(exit_codes).get(SKIP, ()):
        return None
    return AirflowSkipException(f"{verdict.job.name} exited with {found[1]}, which means: skip")
