"""When kill hooks ask Airflow for the task's state, and how long they wait for the answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest
from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms
from airflow.triggers.base import BaseTrigger

from airflow_batchjob import BatchJobOperator
from airflow_batchjob.compat import TaskDeferred
from airflow_batchjob.triggers import asking
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

SLOWLY_SECONDS = 2.0
"""What the first question that a triggerer puts took Airflow 3.3."""


class Airflow:
    """Tells that the task was marked failed, slowly once the Job runs."""

    def __init__(self, ti: TaskInstance) -> None:
        self.ti, self.seconds = ti, 0.0

    def send(self, msg: Any) -> Any:
        assert isinstance(msg, GetTaskStates)
        time.sleep(self.seconds)
        state = "failed" if self.seconds else "running"
        return TaskStatesResult(task_states={self.ti.run_id: {self.ti.task_id: state}})


@pytest.mark.usefixtures("batchjob_connection")
def test_a_trigger_waits_for_a_slow_answer(batchjob_cluster):
    task, ti, context = prepared(BatchJobOperator, image="none", command=["sleep", "60"])
    airflow = Airflow(ti)

    with set_supervisor_comms(airflow):
        with pytest.raises(TaskDeferred) as told:
            task.execute(context)
        trigger = BatchJobTrigger(**told.value.trigger.serialize()[1])
        trigger.task_instance = cast("Any", ti)
        airflow.seconds = SLOWLY_SECONDS
        asyncio.run(trigger.on_kill())

    path = f"/apis/batch/v1/namespaces/{ti.xcoms['job_namespace']}/jobs/{ti.xcoms['job_name']}"
    assert batchjob_cluster.reach.ask("GET", path)["spec"]["activeDeadlineSeconds"] == 0


class Counting:
    """Tells that the task runs, and counts how often it was asked."""

    def __init__(self, ti: TaskInstance) -> None:
        self.ti, self.asked = ti, 0

    def send(self, msg: Any) -> Any:
        assert isinstance(msg, GetTaskStates)
        self.asked += 1
        return TaskStatesResult(task_states={self.ti.run_id: {self.ti.task_id: "running"}})


async def first_event(pause: TaskDeferred, ti: TaskInstance) -> Any:
    """Run a trigger as a triggerer does, to its end."""
    trigger = BatchJobTrigger(**pause.trigger.serialize()[1])
    trigger.task_instance = cast("Any", ti)
    try:
        return await anext(trigger.run())
    finally:
        await trigger.cleanup()


@pytest.mark.usefixtures("batchjob_connection")
@pytest.mark.parametrize("has_kill_hook", [True, False])
def test_only_the_first_trigger_of_a_process_asks_where_no_kill_comes(monkeypatch, has_kill_hook):
    monkeypatch.setattr(asking, "_asked", [])
    if not has_kill_hook:  # Airflow before 3.3
        monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    task, ti, context = prepared(BatchJobOperator, image="none", command=["sleep", "1"])
    airflow = Counting(ti)

    with set_supervisor_comms(airflow):
        with pytest.raises(TaskDeferred) as told:
            task.execute(context)
        before = airflow.asked
        for _ in range(2):
            asyncio.run(first_event(told.value, ti))

    assert airflow.asked - before == 1
