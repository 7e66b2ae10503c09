"""Kill hooks ask first: only a Job that nobody will come back for is stopped.

Airflow calls these hooks also when a trigger merely moves to another triggerer, and when a worker
shuts down. Then the next try, or the next triggerer, goes on with the Job.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.event import Cause
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.tasks import ENDED_STATES, GONE, TaskKey, task_state

if TYPE_CHECKING:
    from logging import Logger

    from airflow_batchjob.client.protocol import JobClient
    from airflow_batchjob.core.reading.job import JobRef

# Airflow sends SIGKILL 5 s after SIGTERM; a hook has done its work after 4.
PATIENCE_SECONDS = 0.5
"""For a submission that a kill overtakes, to come to its end."""

ASK_SECONDS = 2.0
"""For Airflow's answer in the worker."""

WORKER_SECONDS = 3.5
"""For asking and stopping together, in the worker."""

TRIGGER_ASK_SECONDS, TRIGGER_STOP_SECONDS = 17.0, 11.0
"""In the triggerer: Airflow gives a trigger's `on_kill` 30 s (`[triggerer] on_kill_timeout`)."""


async def reason_to_stop(
    task: TaskKey, log: Logger, *, is_last_try: bool = False, limit_seconds: float = ASK_SECONDS
) -> str:
    """Return why a task's Job must not go on, "" if it may, or if Airflow doesn't tell.

    Args:
        task: Whose Job it is.
        log: Says what was decided.
        is_last_try: The task fails of this kill, and has no try left: its Job would run unwatched.
        limit_seconds: How long to wait for Airflow's answer.
    """
    state = await task_state(task, timeout_seconds=limit_seconds)
    if state is None:
        log.warning("Airflow does not tell the state of %s, so its Job goes on", task)
        return ""
    if state == "running" and is_last_try:
        return "the task's process was told to end, and no try is left"
    if state not in ENDED_STATES:
        log.info("%s is %s: its Job goes on, the next to come attaches to it", task, state)
        return ""
    return "the task is gone" if state == GONE else f"the task was marked {state}"


async def stop_in_time(  # noqa: PLR0913  each says something of its own, and all but two are by name
    client: JobClient,
    ref: JobRef,
    *,
    holder: str,
    reason: str,
    cause: Cause,
    log: Logger,
    limit_seconds: float,
    new_holder: str | None = None,
) -> None:
    """Stop a Job within what Airflow leaves a kill hook; never raises for the API."""
    try:
        stopping = stop(client, ref, holder=holder, reason=reason, cause=cause, new_holder=new_holder)
        done = await asyncio.wait_for(stopping, limit_seconds)
    except (ApiError, asyncio.TimeoutError) as error:
        log.warning("Job %s could not be stopped, and may still run: %r", ref, error)
        return
    if done:
        log.info("Job %s stopped: %s", ref, reason)
    else:
        log.info("Job %s was left alone: it has ended, is gone, or is held by another", ref)
