"""Kill hooks on the local cluster: they ask Airflow first, and stop only what nobody comes back for."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms
from airflow.triggers.base import BaseTrigger

from airflow_batchjob import BatchJobOperator
from airflow_batchjob.compat import TaskDeferred, triggers_are_told_of_kills
from airflow_batchjob.core.errors import TaskCutError
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

pytestmark = pytest.mark.usefixtures("batchjob_connection")

ABSENT = object()

STATES = {
    "success": ("success", True),
    "failed": ("failed", True),
    "skipped": ("skipped", True),
    "removed": ("removed", True),
    "the row is gone": (ABSENT, True),
    "deferred: the trigger moves to another triggerer": ("deferred", False),
    "running: the worker shuts down": ("running", False),
    "scheduled: the task was cleared": ("scheduled", False),
    "no state: the task was cleared": (None, False),
    "up for retry": ("up_for_retry", False),
    "restarting": ("restarting", False),
    "no answer": (OSError("the API server is down"), False),
}

each_state = pytest.mark.parametrize(("state", "stopped"), STATES.values(), ids=STATES.keys())


class Airflow:
    """Answers the one question that kill hooks ask."""

    def __init__(self, ti: TaskInstance, state: Any) -> None:
        self.ti, self.state = ti, state

    def send(self, msg: Any) -> Any:
        assert isinstance(msg, GetTaskStates)
        assert (msg.dag_id, msg.run_ids, msg.map_index) == (
            self.ti.dag_id,
            [self.ti.run_id],
            self.ti.map_index,
        )
        if isinstance(self.state, Exception):
            raise self.state
        key = self.ti.task_id if self.ti.map_index < 0 else f"{self.ti.task_id}_{self.ti.map_index}"
        rows = {} if self.state is ABSENT else {self.ti.run_id: {key: self.state}}
        return TaskStatesResult(task_states=rows)


def sleeping(**given: Any) -> tuple[Any, Any, Any]:
    return prepared(BatchJobOperator, **({"image": "none", "command": ["sleep", "60"]} | given))


def is_stopped(cluster: Any, ti: TaskInstance) -> bool:
    name, namespace = ti.xcoms["job_name"], ti.xcoms["job_namespace"]
    found: dict[str, Any] = cluster.reach.ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    return bool(found["spec"].get("activeDeadlineSeconds") == 0)


def trigger_of(task: Any, ti: TaskInstance, context: Any) -> BatchJobTrigger:
    with pytest.raises(TaskDeferred) as told:
        task.execute(context)
    _, arguments = told.value.trigger.serialize()
    trigger = BatchJobTrigger(**arguments)
    trigger.task_instance = cast("Any", ti)
    return trigger


@each_state
def test_a_trigger_that_is_told_of_a_kill(batchjob_cluster, state, stopped):
    task, ti, context = sleeping()
    trigger = trigger_of(task, ti, context)

    with set_supervisor_comms(Airflow(ti, state)):
        asyncio.run(trigger.on_kill())

    assert is_stopped(batchjob_cluster, ti) is stopped


def test_a_trigger_of_a_mapped_task_asks_about_its_own_index(batchjob_cluster):
    task, ti, context = sleeping(ti=TaskInstance(task_id="work", map_index=3))
    trigger = trigger_of(task, ti, context)

    with set_supervisor_comms(Airflow(ti, "failed")):
        asyncio.run(trigger.on_kill())

    assert is_stopped(batchjob_cluster, ti)


def test_a_trigger_that_is_killed_twice_or_after_the_end(batchjob_cluster):
    task, ti, context = sleeping()
    trigger = trigger_of(task, ti, context)

    with set_supervisor_comms(Airflow(ti, "failed")):
        asyncio.run(trigger.on_kill())
        asyncio.run(trigger.on_kill())

    assert is_stopped(batchjob_cluster, ti)


@pytest.mark.skipif(not triggers_are_told_of_kills(), reason="Airflow before 3.3")
def test_a_trigger_that_ends_leaves_the_job_alone(batchjob_cluster):
    task, ti, context = sleeping()
    trigger = trigger_of(task, ti, context)

    with set_supervisor_comms(Airflow(ti, "failed")):
        asyncio.run(trigger.cleanup())

    assert not is_stopped(batchjob_cluster, ti)


@each_state
def test_a_trigger_that_ends_asks_where_airflow_has_no_kill_hook(
    batchjob_cluster, monkeypatch, state, stopped
):
    monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    task, ti, context = sleeping()
    trigger = trigger_of(task, ti, context)

    with set_supervisor_comms(Airflow(ti, state)):
        asyncio.run(trigger.cleanup())

    assert is_stopped(batchjob_cluster, ti) is stopped


@contextmanager
def sigterm_when_submitted(task: Any, ti: TaskInstance) -> Iterator[None]:
    """Do what Airflow does around `execute`: a handler that calls `on_kill`, and SIGTERM from outside."""

    def send() -> None:
        deadline = time.monotonic() + 20
        while "job_name" not in ti.xcoms and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)

    usual = signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, usual)


@each_state
def test_a_worker_that_is_told_to_end(batchjob_cluster, state, stopped):
    task, ti, context = sleeping(ti=TaskInstance(task_id="work", max_tries=1), deferrable=False)

    with (
        set_supervisor_comms(Airflow(ti, state)),
        sigterm_when_submitted(task, ti),
        pytest.raises(TaskCutError),
    ):
        task.execute(context)

    assert is_stopped(batchjob_cluster, ti) is stopped


def test_a_worker_does_not_wait_longer_for_an_answer_than_airflow_waits_for_it(batchjob_cluster):
    class Slow(Airflow):
        def send(self, msg: Any) -> Any:
            time.sleep(4)
            return super().send(msg)

    task, ti, context = sleeping(deferrable=False)

    with (
        set_supervisor_comms(Slow(ti, "failed")),
        sigterm_when_submitted(task, ti),
        pytest.raises(TaskCutError),
    ):
        task.execute(context)

    assert not is_stopped(batchjob_cluster, ti)


def test_airflows_own_timeout_stops_without_asking(batchjob_cluster):
    from airflow.sdk.execution_time.timeout import timeout

    from airflow_batchjob.compat import AirflowTaskTimeout

    task, ti, context = sleeping(deferrable=False)

    with pytest.raises(AirflowTaskTimeout), timeout(4):
        task.execute(context)

    assert is_stopped(batchjob_cluster, ti)


def test_a_worker_that_shuts_down_in_the_last_try_leaves_nothing_behind(batchjob_cluster):
    task, ti, context = sleeping(deferrable=False)

    with (
        set_supervisor_comms(Airflow(ti, "running")),
        sigterm_when_submitted(task, ti),
        pytest.raises(TaskCutError),
    ):
        task.execute(context)

    assert is_stopped(batchjob_cluster, ti)


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_kill_between_submitting_and_waiting(batchjob_cluster, deferrable):
    class Killing(TaskInstance):
        def xcom_push(self, key: str, value: Any) -> None:
            super().xcom_push(key, value)
            task.on_kill()

    task, ti, context = sleeping(ti=Killing(task_id="work"), deferrable=deferrable)

    with set_supervisor_comms(Airflow(ti, "failed")), pytest.raises(TaskCutError):
        task.execute(context)

    assert is_stopped(batchjob_cluster, ti)


@pytest.mark.parametrize("state", ["success", "failed", "skipped", ABSENT])
def test_a_task_that_was_ended_before_it_could_be_deferred(batchjob_cluster, state):
    task, ti, context = sleeping()

    with set_supervisor_comms(Airflow(ti, state)), pytest.raises(TaskCutError):
        task.execute(context)

    assert is_stopped(batchjob_cluster, ti)


def test_a_kill_before_anything_was_submitted(batchjob_cluster):
    task, ti, context = sleeping()
    task.on_kill()

    with pytest.raises(TaskCutError):
        task.execute(context)

    assert ti.xcoms == {}
