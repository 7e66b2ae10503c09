"""How a person makes Airflow run the task of a Job once more: the words to type."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from airflow_batchjob.core.identity.marks import COMMAND_LINE, LOGICAL_DATE, TASK
from airflow_batchjob.core.reading.job import Job


def how_to_clear(job: Job) -> str:
    """Return the command that clears the task of `job`, or what to do where there is none.

    Airflow's command line finds runs by their logical date, takes every task whose id contains the one
    given, lists them and asks; and it clears all instances of a mapped task, so there its API is the way.
    """
    task = _task_of(job)
    if task is None:
        return "Clear its task in Airflow"
    if task["instance"] == COMMAND_LINE:
        return f"Run the same manifest again: batchjob run MANIFEST --id {shlex.quote(str(task['run_id']))}"
    date = job.metadata.annotations.get(LOGICAL_DATE, "")
    if date and task["map_index"] < 0:
        # Called a regex, and since Airflow 3 a part of the id: without --yes it lists what it has found.
        words = ["airflow", "tasks", "clear", task["dag_id"], "--task-regex", task["task_id"]]
        return shlex.join([*words, "--start-date", date, "--end-date", date])
    return _by_api(task)


def _by_api(task: Mapping[str, Any]) -> str:
    mapped = task["map_index"] >= 0
    body = {
        "dag_run_id": task["run_id"],
        "task_ids": [[task["task_id"], task["map_index"]] if mapped else task["task_id"]],
        "dry_run": False,
        "only_failed": False,
    }
    words = ["curl", "-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps(body)]
    # The URL and the token are the reader's: their shell fills them in.
    tail = f'-H "Authorization: Bearer $TOKEN" "$AIRFLOW_URL/api/v2/dags/{task["dag_id"]}/clearTaskInstances"'
    return f"{shlex.join(words)} {tail}"


def _task_of(job: Job) -> dict[str, Any] | None:
    try:
        task = json.loads(job.metadata.annotations.get(TASK, ""))
    except ValueError:
        return None
    needed = {"instance": str, "dag_id": str, "run_id": str, "task_id": str, "map_index": int}
    if not isinstance(task, dict):
        return None
    return task if all(isinstance(task.get(key), kind) for key, kind in needed.items()) else None
