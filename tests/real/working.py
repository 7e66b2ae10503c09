"""The operator on the run's cluster, in a task without an Airflow around it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

from airflow_batchjob import BatchJobOperator
from airflow_batchjob.compat import TaskDeferred
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.contract.asking import Asker, Object
from tests.dags.airflow_tasks import TaskInstance, prepared

UNTIL_TERM = "trap 'exit 143' TERM; echo up; while :; do sleep 0.1; done"
GRACE = {"terminationGracePeriodSeconds": 2}

Meanwhile = Callable[[Asker], None]


def work(api: Asker, **given: Any) -> tuple[Any, TaskInstance, Any]:
    """Return a task, its instance and its context."""
    defaults: dict[str, Any] = {
        "image": "busybox:1.36",
        "command": ["true"],
        "namespace": api.namespace,
        "pod": GRACE,
    }
    return prepared(BatchJobOperator, **(defaults | given))


def run(task: Any, context: Any, api: Asker, meanwhile: Meanwhile | None = None) -> Any:
    """Run a task to its end, through its trigger where it defers; `meanwhile` others do something."""
    trouble: list[BaseException] = []

    def others() -> None:
        try:
            if meanwhile is not None:
                meanwhile(api)
        except BaseException as raised:  # noqa: BLE001  it is raised again below
            trouble.append(raised)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        return _to_the_end(task, context)
    finally:
        thread.join(120)
        if trouble:
            raise trouble[0]


def _to_the_end(task: Any, context: Any) -> Any:
    try:
        return task.execute(context)
    except TaskDeferred as pause:
        return getattr(task, pause.method_name)(context, event=fired(pause), **(pause.kwargs or {}))


def fired(pause: TaskDeferred) -> dict[str, Any]:
    """Run the trigger as the triggerer does: rebuilt from JSON; its event goes through JSON, too."""
    _, arguments = pause.trigger.serialize()
    trigger = BatchJobTrigger(**json.loads(json.dumps(arguments)))

    async def first() -> Any:
        return await anext(trigger.run())

    event: dict[str, Any] = json.loads(json.dumps(asyncio.run(first()).payload))
    return event


def the_job(api: Asker) -> Object:
    """Return the only Job of the namespace, once it is there."""
    found = api.eventually(lambda: api.ask("GET", api.jobs()).body["items"], seconds=30)
    assert len(found) == 1
    job: Object = found[0]
    return job


def pods(api: Asker) -> list[Object]:
    """Return the namespace's pods, those that go first left out."""
    items: list[Object] = api.ask("GET", api.core("pods")).body["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def when_running(api: Asker, count: int = 1) -> list[Object]:
    """Wait until so many pods run and have set their traps; return them."""

    def have_begun() -> list[Object] | None:
        running = [pod for pod in pods(api) if pod["status"]["phase"] == "Running"]
        begun = [
            pod for pod in running if api.ask("GET", api.core("pods", pod["metadata"]["name"], "log")).body
        ]
        return begun if len(begun) >= count else None

    found: list[Object] = api.eventually(have_begun, seconds=60)
    return found
