"""The first question that is put to Airflow in a triggerer takes long, so it is put early."""

from __future__ import annotations

import asyncio

from airflow_batchjob.tasks import TaskKey, task_state

_ANSWER_SECONDS = 120.0

_asked: list[asyncio.Task[str | None]] = []


def ask_early(task: TaskKey) -> None:
    """Put one question, once in each triggerer process, and wait for no answer.

    For the first that is put there Airflow 3 builds its API inside the triggerer: seconds, on a busy
    machine half a minute. A kill hook, which asks too, has no such time.
    """
    if not _asked:
        _asked.append(asyncio.ensure_future(task_state(task, timeout_seconds=_ANSWER_SECONDS)))
