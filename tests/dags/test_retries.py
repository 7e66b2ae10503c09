"""Tries of the operator on the local cluster, with a store of the task's own as Airflow 3.3 has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Timer
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.execution_time import comms
from airflow.sdk.execution_time import context as airflow_context
from airflow.sdk.execution_time.supervisor import set_supervisor_comms

from airflow_batchjob import BatchJobOperator, OutcomeUnknownError, ThresholdNotMetError
from airflow_batchjob.hooks.batchjob import BatchJobHook
from tests.dags.airflow_tasks import TaskInstance, prepared
from tests.dags.test_operator import deferred, fired, resumed, run

pytestmark = [
    pytest.mark.usefixtures("batchjob_connection"),
    pytest.mark.skipif(
        not hasattr(airflow_context, "TaskStateStoreAccessor"), reason="this Airflow keeps no state of tasks"
    ),
]

GENERATION = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['airflow-batchjob/generation']"}}}
ODD_FAIL_FIRST = ["sh", "-c", "[ $GENERATION -gt 0 ] || exit $((JOB_COMPLETION_INDEX % 2))"]
ODD_LAST_FIRST = [
    "sh",
    "-c",
    "[ $GENERATION -gt 0 ] || [ $((JOB_COMPLETION_INDEX % 2)) = 0 ] || exec sleep 60",
]


class Airflow:
    """Keeps the state of tasks, and answers for it."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def send(self, msg: Any) -> Any:
        if isinstance(msg, comms.SetTaskStateStore):
            self.kept[msg.key] = msg.value
            return None
        if isinstance(msg, comms.GetTaskStates):
            return comms.TaskStatesResult(
                task_states={run_id: {"work": "deferred"} for run_id in msg.run_ids or ()}
            )
        assert isinstance(msg, comms.GetTaskStateStore)
        if msg.key in self.kept:
            return comms.TaskStateStoreResult(value=self.kept[msg.key])
        return None


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    store = Airflow()
    comms_of_it: Any = store
    with set_supervisor_comms(comms_of_it):
        yield store


def work(ti: TaskInstance, **given: Any) -> tuple[Any, TaskInstance, Any]:
    defaults = {"image": "none", "env": {"GENERATION": GENERATION}, "completions": 4, "logs": "none"}
    task, ti, context = prepared(BatchJobOperator, ti, **(defaults | given))
    scope: Any = None
    context["task_state_store"] = airflow_context.TaskStateStoreAccessor(uuid4(), scope)
    return task, ti, context


def gone(cluster: Any, ti: TaskInstance) -> None:
    name, namespace = ti.xcoms["job_name"], ti.xcoms["job_namespace"]
    # As kubectl does; without a policy its pods would run on.
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}?propagationPolicy=Background"
    cluster.reach.ask("DELETE", path)


def pods(cluster: Any, ti: TaskInstance) -> list[int]:
    path = f"/api/v1/namespaces/{ti.xcoms['job_namespace']}/pods"
    found = cluster.reach.ask("GET", path)["items"]
    uid = "batch.kubernetes.io/controller-uid"
    mine = [p for p in found if p["metadata"]["labels"][uid] == ti.xcoms["job_uid"]]
    return sorted(int(p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]) for p in mine)


def failed_once(**given: Any) -> TaskInstance:
    task, ti, context = work(TaskInstance(task_id="work", max_tries=2), command=ODD_FAIL_FIRST, **given)
    with pytest.raises(ThresholdNotMetError, match=r"2 failed: 1,3\. .*\. Try 2 of 3 runs these 2\."):
        run(task, context)
    return ti


def test_a_retry_runs_what_is_left_and_returns_what_all_did(batchjob_cluster, airflow):
    task, ti, context = work(failed_once().next_try(), command=ODD_FAIL_FIRST)

    result = run(task, context)

    assert (result["generation"], result["succeeded"], result["succeeded_indexes"]) == (1, 4, "0-3")
    assert pods(batchjob_cluster, ti) == [1, 3]


def test_a_retry_resumes_a_job_that_somebody_deleted(batchjob_cluster, airflow):
    first = failed_once()
    gone(batchjob_cluster, first)
    task, ti, context = work(first.next_try(), command=ODD_FAIL_FIRST)

    assert run(task, context)["succeeded_indexes"] == "0-3"
    assert pods(batchjob_cluster, ti) == [1, 3]


def test_a_retry_resumes_a_job_that_vanished_while_it_ran(batchjob_cluster, airflow):
    task, ti, context = work(TaskInstance(task_id="work", max_tries=2), command=ODD_LAST_FIRST)
    pause = deferred(task, context)
    Timer(2, gone, (batchjob_cluster, ti)).start()

    with pytest.raises(OutcomeUnknownError, match="Try 2 of 3 runs these 2"):
        resumed(task, context, fired(pause))
    task, ti, context = work(ti.next_try(), command=ODD_LAST_FIRST)

    assert run(task, context)["succeeded_indexes"] == "0-3"
    assert pods(batchjob_cluster, ti) == [1, 3]


def test_without_a_store_a_retry_starts_over_when_the_job_is_gone(batchjob_cluster, airflow):
    first = failed_once()
    gone(batchjob_cluster, first)
    task, ti, context = work(first.next_try(), command=["true"])
    del context["task_state_store"]

    run(task, context)

    assert pods(batchjob_cluster, ti) == [0, 1, 2, 3]


def test_what_was_met_and_deleted_is_the_result_of_a_retry_that_was_not_told(batchjob_cluster, airflow):
    task, ti, context = work(TaskInstance(task_id="work", max_tries=2), command=["true"], on_finish="delete")
    run(task, context)
    task, ti, context = work(ti.next_try(), command=["true"], on_finish="delete")

    assert task.execute(context)["succeeded_indexes"] == "0-3"
    assert json.loads(airflow.kept["airflow_batchjob.record"])["verdict"]["succeeded"] == 4


def test_indexes_are_asked_for_by_the_hook(batchjob_cluster, airflow):
    first = failed_once()
    asked = BatchJobHook().request_rerun(first.xcoms["job_name"], "3", by="ada")
    cleared = TaskInstance(
        task_id="work", run_id=first.run_id, try_number=2, max_tries=4, id=first.id, dag_id=first.dag_id
    )
    task, ti, context = work(cleared, command=ODD_FAIL_FIRST)

    result = run(task, context)

    assert (asked.indexes.count, asked.succeeded) == (1, 2)
    assert f'"dag_run_id": "{first.run_id}"' in asked.then
    assert (result["verdict"], result["succeeded_indexes"], result["not_run_indexes"]) == (
        "met",
        "0,2,3",
        "1",
    )
    assert pods(batchjob_cluster, ti) == [3]
