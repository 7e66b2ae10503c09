"""A task of the product on the local cluster, whose worker and triggerer may have different connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_batchjob import BatchJobOperator
from airflow_batchjob.compat import TaskDeferred
from airflow_batchjob.local.daemon import Settings, start
from airflow_batchjob.local.folder import ClusterFolder
from airflow_batchjob.local.kubeconfig import airflow_connection
from airflow_batchjob.testing import CONNECTION
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

SLEEP = ["sleep", "60"]


def task_of(ti: TaskInstance | None = None, **given: Any) -> tuple[Any, TaskInstance, Any]:
    """Return a task that sleeps, its instance and its context."""
    return prepared(BatchJobOperator, ti, **({"image": "none", "command": SLEEP} | given))


def deferred(task: Any, context: Any) -> BatchJobTrigger:
    """Run a task up to its deferral; return its trigger as the triggerer builds it."""
    with pytest.raises(TaskDeferred) as told:
        task.execute(context)
    _, arguments = told.value.trigger.serialize()
    return BatchJobTrigger(**arguments)


def fired(trigger: BatchJobTrigger, limit_seconds: float = 60) -> dict[str, Any]:
    """Run a trigger until it fires."""

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("it did not fire")

    return asyncio.run(asyncio.wait_for(first(), limit_seconds))


def resumed(task: Any, context: Any, event: dict[str, Any]) -> Any:
    """Resume a task with a trigger's event, as Airflow does."""
    return task.resume_execution("resume", {"event": event}, context)


def job_of(cluster: Any, ti: TaskInstance) -> dict[str, Any]:
    """Return the task's Job as it is now."""
    name, namespace = ti.xcoms["job_name"], ti.xcoms["job_namespace"]
    found: dict[str, Any] = cluster.reach.ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    return found


def is_stopped(cluster: Any, ti: TaskInstance) -> bool:
    return bool(job_of(cluster, ti)["spec"].get("activeDeadlineSeconds") == 0)


@contextlib.contextmanager
def another_cluster(folder: Path) -> Iterator[ClusterFolder]:
    """Run a second local cluster."""
    other = ClusterFolder(folder / "other")
    start(Settings(folder=str(other.path), name="other"))
    try:
        yield other
    finally:
        other.stop()


def connect_to(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path) -> None:
    """Let Airflow's connection lead to another cluster from now on."""
    monkeypatch.setenv(CONNECTION, airflow_connection(kubeconfig))
