"""What users of other operators met with, on the local cluster; tests/faults/README.md has the table."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import Phase, read_status
from airflow_batchjob.testing import Cluster
from tests.dags.airflow_tasks import TaskInstance
from tests.faults.tasks import deferred, fired, job_of, resumed, task_of

pytestmark = pytest.mark.usefixtures("batchjob_connection")

EACH_KIND = pytest.mark.parametrize("deferrable", [True, False], ids=["deferred", "in the worker"])


def end_of(task: Any, context: Any) -> Any:
    """Run a task to its end, wherever it waits."""
    if not task.deferrable:
        return task.execute(context)
    return resumed(task, context, fired(deferred(task, context)))


@EACH_KIND
def test_more_parallelism_than_completions_ends_all_the_same(
    batchjob_cluster: Cluster, deferrable: bool
) -> None:
    task, _, context = task_of(command=["true"], completions=1, parallelism=4, deferrable=deferrable)

    assert end_of(task, context)["verdict"] == "met"


FIRST_POD_HANGS = 'if mkdir "$MARK"; then exec sleep 60; fi'


def test_a_replaced_pod_is_what_counts(batchjob_cluster: Cluster, tmp_path: Any) -> None:
    task, ti, context = task_of(
        TaskInstance(task_id="work", max_tries=1),
        command=["sh", "-c", FIRST_POD_HANGS],
        env={"MARK": str(tmp_path / "mark")},
        retries_per_index=1,
    )
    trigger = deferred(task, context)
    name = ti.xcoms["job_name"]
    due = time.monotonic() + 20
    while not (tmp_path / "mark").exists() and time.monotonic() < due:
        time.sleep(0.1)
    pods = batchjob_cluster.reach.ask(
        "GET", f"/api/v1/namespaces/default/pods?labelSelector=batch.kubernetes.io/job-name={name}"
    )["items"]
    batchjob_cluster.evict(pods[0]["metadata"]["name"])

    result = resumed(task, context, fired(trigger))

    assert (result["verdict"], result["succeeded_indexes"], result["failed_indexes"]) == ("met", "0", "")


def test_two_pods_of_one_index_are_one_index(batchjob_cluster: Cluster) -> None:
    stubborn = ["sh", "-c", "trap '' TERM; sleep 4; exit 0"]
    task, ti, context = task_of(
        command=stubborn,
        pod={"terminationGracePeriodSeconds": 1},
        retries_per_index=1,
        completions=2,
    )
    trigger = deferred(task, context)
    path = (
        f"/api/v1/namespaces/default/pods?labelSelector=batch.kubernetes.io/job-name={ti.xcoms['job_name']}"
    )
    due = time.monotonic() + 20
    pods: list[Any] = []
    while len(pods) < 2 and time.monotonic() < due:
        pods = [
            pod
            for pod in batchjob_cluster.reach.ask("GET", path)["items"]
            if pod["status"].get("phase") == "Running"
        ]
        time.sleep(0.1)
    batchjob_cluster.evict(pods[0]["metadata"]["name"])

    result = resumed(task, context, fired(trigger))

    assert (result["verdict"], result["completions"], result["succeeded"]) == ("met", 2, 2)


def test_a_failure_policy_without_a_status_is_read(batchjob_cluster: Cluster) -> None:
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "policy"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "backoffLimitPerIndex": 0,
            "podFailurePolicy": {"rules": rules},
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "none", "command": ["true"]}],
                }
            },
        },
    }
    task, ti, context = task_of(image=None, command=None, manifest=manifest)

    assert end_of(task, context)["verdict"] == "met"
    sent = job_of(batchjob_cluster, ti)["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in sent] == ["FailIndex", "Ignore"]


COUNTERS: dict[str, tuple[dict[str, Any], Phase]] = {
    "one active, three pods failed": ({"active": 1, "failed": 3}, Phase.RUNNING),
    "failed without a failed pod": (
        {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
        Phase.FAILED,
    ),
    "complete in spite of failed pods": (
        {"succeeded": 10, "failed": 2, "conditions": [{"type": "Complete", "status": "True"}]},
        Phase.SUCCEEDED,
    ),
}


@pytest.mark.parametrize(("status", "want"), COUNTERS.values(), ids=COUNTERS.keys())
def test_counters_decide_nothing(status: dict[str, Any], want: Phase) -> None:
    job = msgspec.convert({"metadata": {"name": "embed"}, "status": status}, Job)

    assert read_status(job).phase is want
