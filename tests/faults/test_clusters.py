"""Worker and triggerer that see different clusters, or have different rights, are told apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk.execution_time.comms import TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms

from airflow_batchjob.compat import AirflowFailException
from airflow_batchjob.local.folder import ClusterFolder
from airflow_batchjob.local.kubeconfig import airflow_connection
from airflow_batchjob.local.reach import Reach
from airflow_batchjob.testing import CONNECTION, Cluster
from tests.dags.airflow_tasks import TaskInstance
from tests.faults.tasks import (
    another_cluster,
    connect_to,
    deferred,
    fired,
    is_stopped,
    job_of,
    resumed,
    task_of,
)

pytestmark = pytest.mark.usefixtures("batchjob_connection")

ONE_TRY_LEFT = {"task_id": "work", "max_tries": 1}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFolder]:
    with another_cluster(tmp_path_factory.mktemp("clusters")) as made:
        yield made


def test_a_triggerer_that_sees_another_cluster_is_told_apart(
    batchjob_cluster: Cluster, other: ClusterFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, ti, context = task_of(TaskInstance(**ONE_TRY_LEFT))
    trigger = deferred(task, context)
    connect_to(monkeypatch, other.kubeconfig)
    event = fired(trigger)
    connect_to(monkeypatch, batchjob_cluster.kubeconfig)

    with pytest.raises(AirflowFailException, match="different clusters") as told:
        resumed(task, context, event)

    assert batchjob_cluster.url in str(told.value)
    assert Reach.by_kubeconfig(other.kubeconfig).url in str(told.value)
    assert is_stopped(batchjob_cluster, ti)  # no try is left that could attach to it


def test_a_job_that_ended_out_of_the_triggerers_sight_is_judged_by_what_it_did(
    batchjob_cluster: Cluster, other: ClusterFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, ti, context = task_of(command=["true"])
    trigger = deferred(task, context)
    connect_to(monkeypatch, other.kubeconfig)
    event = fired(trigger)
    connect_to(monkeypatch, batchjob_cluster.kubeconfig)
    due = time.monotonic() + 20
    while not job_of(batchjob_cluster, ti)["status"].get("completionTime") and time.monotonic() < due:
        time.sleep(0.1)

    assert resumed(task, context, event)["verdict"] == "met"


def test_a_kill_hook_on_another_cluster_harms_nobody(
    batchjob_cluster: Cluster, other: ClusterFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, ti, context = task_of()
    trigger = deferred(task, context)
    trigger.task_instance = cast("Any", ti)
    there = Reach.by_kubeconfig(other.kubeconfig)
    job = job_of(batchjob_cluster, ti)
    twin = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {key: job["metadata"][key] for key in ("name", "labels", "annotations")},
        "spec": {"suspend": True, "template": job["spec"]["template"]},
    }
    twin["spec"]["template"]["metadata"].pop("labels", None)
    there.ask("POST", "/apis/batch/v1/namespaces/default/jobs", twin)
    connect_to(monkeypatch, other.kubeconfig)

    class Ended:
        def send(self, msg: Any) -> Any:
            return TaskStatesResult(task_states={ti.run_id: {ti.task_id: "failed"}})

    with set_supervisor_comms(cast("Any", Ended())):
        asyncio.run(trigger.on_kill())

    name = job["metadata"]["name"]
    untouched = there.ask("GET", f"/apis/batch/v1/namespaces/default/jobs/{name}")
    assert untouched["spec"].get("activeDeadlineSeconds") is None
    assert not is_stopped(batchjob_cluster, ti)


CONNECTIONS = {
    "a kubeconfig that is not there": (
        '{"conn_type": "kubernetes", "extra": {"kube_config_path": "/nowhere/config"}}',
        "there is no such file",
    ),
    "two places at once": (
        '{"conn_type": "kubernetes", "extra": {"in_cluster": true, "kube_config_path": "/x"}}',
        "Keep one of them",
    ),
    "nobody's token": (None, "401"),
}


@pytest.mark.parametrize(("connection", "want"), CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_a_triggerer_that_can_not_get_in_says_so_and_leaves_no_job(
    batchjob_cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: str | None,
    want: str,
) -> None:
    task, ti, context = task_of()
    trigger = deferred(task, context)
    if connection is None:
        text = batchjob_cluster.kubeconfig.read_text()
        stranger = tmp_path / "stranger"
        stranger.write_text(text.replace(batchjob_cluster.reach.token, "nobody"))
        connect_to(monkeypatch, stranger)
    else:
        monkeypatch.setenv(CONNECTION, connection)
    event = fired(trigger)
    connect_to(monkeypatch, batchjob_cluster.kubeconfig)

    with pytest.raises(AirflowFailException, match=want) as told:
        resumed(task, context, event)

    assert "triggerer" in str(told.value)
    assert is_stopped(batchjob_cluster, ti)


def test_a_connection_that_the_triggerer_does_not_have_is_named(
    batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GPU", airflow_connection(batchjob_cluster.kubeconfig))
    task, _, context = task_of(kubernetes_conn_id="gpu")
    trigger = deferred(task, context)
    monkeypatch.delenv("AIRFLOW_CONN_GPU")
    event = fired(trigger)

    assert "there is no such connection" in event["error"]
    assert event["may_retry"] is False
