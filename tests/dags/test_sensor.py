"""The sensor on the local cluster: of a task, by name, by labels; in the triggerer and in the worker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from airflow.sdk.execution_time.comms import GetTaskStates, GetXCom, TaskStatesResult, XComResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms

from airflow_batchjob import BatchJobOperator, BatchJobSensor, OutcomeUnknownError, ThresholdNotMetError
from airflow_batchjob.compat import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow_batchjob.triggers.sensor import BatchJobSensorTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

pytestmark = pytest.mark.usefixtures("batchjob_connection")

FAIL_ODD = ["sh", "-c", "exit $((JOB_COMPLETION_INDEX % 2))"]
ONE_BY_ONE = ["sh", "-c", "sleep 0.3"]


class Airflow:
    """Tells the state of the owning task, and what it returned."""

    def __init__(self, state: str, returned: Any = None) -> None:
        self.state, self.returned = state, returned

    def send(self, msg: Any) -> Any:
        if isinstance(msg, GetXCom):
            return XComResult(key=msg.key, value=self.returned)
        assert isinstance(msg, GetTaskStates)
        assert msg.run_ids
        assert msg.task_ids
        return TaskStatesResult(task_states={msg.run_ids[0]: {msg.task_ids[0]: self.state}})


def submitted(**given: Any) -> TaskInstance:
    """Submit a Job as an operator does that then waits in the triggerer."""
    task, ti, context = prepared(BatchJobOperator, **({"image": "none", "command": ["true"]} | given))
    with pytest.raises(TaskDeferred):
        task.execute(context)
    return ti


def sensor(owner: TaskInstance | None = None, **given: Any) -> tuple[Any, TaskInstance, Any]:
    ti = TaskInstance(task_id="sensor", run_id=owner.run_id if owner else "elsewhere")
    if owner and not {"name", "label_selector"} & given.keys():
        given = {"of_task": owner.task_id} | given
    return prepared(BatchJobSensor, ti, **given)


def waited(task: Any, context: Any, *, state: str = "deferred", returned: Any = None) -> Any:
    """Run a sensor to its end, through the trigger where it defers."""
    with set_supervisor_comms(Airflow(state, returned)):
        try:
            return task.execute(context)
        except TaskDeferred as pause:
            _, arguments = pause.trigger.serialize()
            method = pause.method_name
        trigger = BatchJobSensorTrigger(**json.loads(json.dumps(arguments)))

        async def first() -> Any:
            return await anext(trigger.run())

        event = json.loads(json.dumps(asyncio.run(first()).payload))
        assert len(json.dumps(event)) < 8_000
        return getattr(task, method)(context, event=event)


def test_waits_for_half_of_a_tasks_job_and_returns_what_the_operator_does():
    owner = submitted(completions=4, parallelism=1, command=ONE_BY_ONE)
    task, ti, context = sensor(owner, until="50%")

    result = waited(task, context)

    assert result["job_uid"] == owner.xcoms["job_uid"]
    assert result["succeeded"] >= 2
    assert result["succeeded_indexes"].startswith("0")
    assert ti.xcoms == result


def test_waits_where_there_is_no_job_yet():
    ti = TaskInstance(task_id="later")
    task, _, context = sensor(ti, until="started")

    with set_supervisor_comms(Airflow("queued")), pytest.raises(TaskDeferred):
        task.execute(context)


@pytest.mark.parametrize("deferrable", [True, False])
def test_waits_for_the_end(deferrable):
    owner = submitted(completions=2, command=["sleep", "0.5"])
    task, _, context = sensor(owner, deferrable=deferrable, poke_interval=0.2)

    assert waited(task, context)["verdict"] == "met"


def test_by_name_follows_a_job_of_ours():
    owner = submitted(completions=2)
    task, _, context = sensor(name=owner.xcoms["job_name"], until="100%")

    assert waited(task, context)["job_uid"] == owner.xcoms["job_uid"]


def foreign(cluster: Any, name: str, command: list[str]) -> None:
    """Create a Job as kubectl does: no task of ours owns it."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"team": name}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "none", "command": command}],
                }
            },
        },
    }
    cluster.reach.ask("POST", f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs", job)


def test_by_labels_sees_a_job_that_no_task_owns(batchjob_cluster):
    foreign(batchjob_cluster, "kubectls", ["true"])
    task, _, context = sensor(
        label_selector="team=kubectls", mode="poke", deferrable=False, poke_interval=0.2
    )

    assert waited(task, context)["job_name"] == "kubectls"


def test_the_end_of_a_job_that_no_task_owns_is_final(batchjob_cluster):
    foreign(batchjob_cluster, "failing", ["false"])
    task, _, context = sensor(name="failing", until=1, deferrable=False, poke_interval=0.2)

    with pytest.raises(ThresholdNotMetError, match="0 succeeded, 1 needed"):
        waited(task, context)


@pytest.fixture(scope="module")
def half_failed(batchjob_cluster: Any) -> TaskInstance:
    """A Job of a task that ended with half of its indexes."""
    from airflow_batchjob.local.kubeconfig import airflow_connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", airflow_connection(batchjob_cluster.kubeconfig))
        owner = submitted(completions=4, command=FAIL_ODD, logs="none")
        task, _, context = sensor(owner, deferrable=False, poke_interval=0.2)
        waited(task, context, state="failed")
    return owner


def test_an_end_below_the_threshold_waits_for_a_retry(half_failed):
    task, _, context = sensor(half_failed, until="75%")

    with set_supervisor_comms(Airflow("up_for_retry")), pytest.raises(TaskDeferred):
        task.execute(context)


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_an_end_below_the_threshold_is_final_with_its_task(half_failed, state):
    task, ti, context = sensor(half_failed, until="75%")

    with pytest.raises(ThresholdNotMetError, match="2 succeeded, 3 needed"):
        waited(task, context, state=state)
    assert ti.xcoms["failed_indexes"] == "1,3"


def test_an_end_above_the_threshold_is_met_whatever_the_task_says(half_failed):
    task, _, context = sensor(half_failed, until="50%")

    assert waited(task, context, state="up_for_retry")["succeeded"] == 2


def test_too_many_failed_ends_the_wait(half_failed):
    task, _, context = sensor(half_failed, until="50%", max_failed=1)

    with pytest.raises(ThresholdNotMetError, match="2 indexes failed, 1 are allowed"):
        waited(task, context)


def test_skips_in_place_of_failing(half_failed):
    task, _, context = sensor(half_failed, until="75%", soft_fail=True)

    with pytest.raises(AirflowSkipException):
        waited(task, context, state="failed")


def test_judges_by_the_tasks_own_result_where_its_job_is_gone():
    told = {"succeeded": 3, "completions": 4, "verdict": "met"}
    task, ti, context = sensor(TaskInstance(task_id="gone"), until="75%")

    assert waited(task, context, state="success", returned=told) == told
    assert ti.xcoms == told


def test_no_job_and_no_result_is_an_error():
    task, _, context = sensor(TaskInstance(task_id="gone"))

    with pytest.raises(OutcomeUnknownError):
        waited(task, context, state="success")


class TestTheTimeout:
    def test_holds_while_deferred(self):
        task, _, context = sensor(TaskInstance(task_id="never"), timeout=30)

        with set_supervisor_comms(Airflow("queued")), pytest.raises(TaskDeferred) as told:
            task.execute(context)
        assert 25 < told.value.timeout.total_seconds() <= 30
        with pytest.raises(AirflowSensorTimeout):
            task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)

    def test_skips_where_that_was_asked_for(self):
        task, _, context = sensor(TaskInstance(task_id="never"), timeout=30, soft_fail=True)

        with pytest.raises(AirflowSkipException):
            task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)

    def test_holds_in_the_worker(self):
        task, _, context = sensor(
            TaskInstance(task_id="never"), timeout=0.3, deferrable=False, poke_interval=0.1
        )

        with pytest.raises(AirflowSensorTimeout):
            waited(task, context, state="queued")
