"""Ways to stop that no other test shows: docs/stopping.md tables them all."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk.execution_time.comms import TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms

from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.compat import AirflowFailException, AirflowSkipException
from airflow_batchjob.core.errors import ApiUnavailableError, TaskCutError
from airflow_batchjob.testing import Cluster
from tests.dags.airflow_tasks import TaskInstance
from tests.faults.tasks import connect_to, deferred, fired, is_stopped, job_of, resumed, task_of

pytestmark = pytest.mark.usefixtures("batchjob_connection")

ROOT = Path(__file__).parents[2]


class Says:
    """An Airflow that says one state of every task."""

    def __init__(self, ti: TaskInstance, state: str) -> None:
        self._answer = TaskStatesResult(task_states={ti.run_id: {ti.task_id: state}})

    def send(self, msg: Any) -> Any:
        return self._answer


def test_a_last_try_that_fails_of_something_else_stops_its_job(
    batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, ti, context = task_of()
    deferred(task, context)
    event = {"order": deferred_order(task, ti), "error": "ApiUnavailableError: no answer", "may_retry": True}

    with pytest.raises(ApiUnavailableError):
        resumed(task, context, event)

    assert is_stopped(batchjob_cluster, ti)


def test_with_a_try_left_the_job_goes_on_for_it(batchjob_cluster: Cluster) -> None:
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=1))
    deferred(task, context)
    event = {"order": deferred_order(task, ti), "error": "ApiUnavailableError: no answer", "may_retry": True}

    with pytest.raises(ApiUnavailableError):
        resumed(task, context, event)

    assert not is_stopped(batchjob_cluster, ti)


def test_with_a_try_left_an_error_that_no_try_can_mend_stops_the_job(batchjob_cluster: Cluster) -> None:
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=1))
    deferred(task, context)
    event = {"order": deferred_order(task, ti), "error": "ApiRefusedError: 403", "may_retry": False}

    with pytest.raises(AirflowFailException):
        resumed(task, context, event)

    assert is_stopped(batchjob_cluster, ti)


def deferred_order(task: Any, ti: TaskInstance) -> dict[str, Any]:
    """Return an order as a trigger's event carries it."""
    job = {"namespace": ti.xcoms["job_namespace"], "name": ti.xcoms["job_name"], "uid": ti.xcoms["job_uid"]}
    return {
        "job": job,
        "identity": "",
        "generation": 0,
        "holder": f"{ti.id}/{ti.try_number}",
        "completions": 1,
        "indexed": True,
    }


@pytest.mark.parametrize(("state", "stopped"), [("failed", True), ("scheduled", False)])
def test_a_kill_that_comes_while_the_connection_is_closed(
    batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, state: str, stopped: bool
) -> None:
    close = KubernetesClient.close
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=1))
    killed: list[bool] = []

    async def killing(client: KubernetesClient) -> None:
        await close(client)
        if not killed:
            killed.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)

    # The moment can't be met from outside.
    monkeypatch.setattr(KubernetesClient, "close", killing)
    usual = signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    try:
        with set_supervisor_comms(cast("Any", Says(ti, state))), pytest.raises(TaskCutError):
            task.execute(context)
    finally:
        signal.signal(signal.SIGTERM, usual)

    (job,) = jobs_of_run(batchjob_cluster, ti)
    assert (job["spec"].get("activeDeadlineSeconds") == 0) is stopped


@pytest.mark.parametrize(("state", "stopped"), [("failed", True), ("scheduled", False)])
def test_a_kill_before_the_next_try_has_attached(
    batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, state: str, stopped: bool
) -> None:
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=2))
    deferred(task, context)  # and its try dies
    later, ti, context = task_of(ti.next_try())

    class Killed(KubernetesClient):
        async def list_jobs(self, namespace: str, label_selector: str) -> Any:
            later.on_kill()
            await asyncio.sleep(0.01)
            return await super().list_jobs(namespace, label_selector)

    # The moment can't be met from outside.
    monkeypatch.setattr("airflow_batchjob.client.kubernetes.KubernetesClient", Killed)
    with set_supervisor_comms(cast("Any", Says(ti, state))), pytest.raises(TaskCutError):
        later.execute(context)

    (job,) = jobs_of_run(batchjob_cluster, ti)
    assert (job["spec"].get("activeDeadlineSeconds") == 0) is stopped


NOTHING_TO_ASK_FOR: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "there is nothing to do any more": ({"completions": "{{ 0 }}"}, AirflowSkipException),
    "the DAG was edited, and makes no sense": ({"completions": "{{ 'many' }}"}, AirflowFailException),
}


@pytest.mark.parametrize(("edited", "error"), NOTHING_TO_ASK_FOR.values(), ids=NOTHING_TO_ASK_FOR.keys())
def test_a_later_try_that_asks_for_nothing_stops_what_an_earlier_one_left(
    batchjob_cluster: Cluster, edited: dict[str, Any], error: type[Exception]
) -> None:
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=2))
    deferred(task, context)  # and its try dies, or is cleared
    later, _, context = task_of(ti.next_try(), **edited)

    with pytest.raises(error):
        later.execute(context)

    assert is_stopped(batchjob_cluster, ti)


def test_it_looks_for_them_where_the_manifest_says(batchjob_cluster: Cluster) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}
    batchjob_cluster.reach.ask("POST", "/api/v1/namespaces", namespace)
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "elsewhere"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}},
    }
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=2), manifest=manifest)
    deferred(task, context)  # and its try dies
    later, _, context = task_of(ti.next_try(), manifest=manifest, completions="{{ 'many' }}")

    with pytest.raises(AirflowFailException):
        later.execute(context)

    assert is_stopped(batchjob_cluster, ti)


def test_a_later_try_that_fails_before_it_asks_leaves_the_job_to_the_next(
    batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, ti, context = task_of(TaskInstance(task_id="work", max_tries=2))
    deferred(task, context)  # and its try dies
    later, _, context = task_of(ti.next_try())
    monkeypatch.setattr("airflow_batchjob.hooks.batchjob.BatchJobHook.settings", broken)

    with pytest.raises(OSError, match="the connection can't be read"):
        later.execute(context)

    assert not is_stopped(batchjob_cluster, ti)


def broken(_hook: Any) -> Any:
    raise OSError("the connection can't be read")


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_wrong_is_told_where_no_cluster_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    connect_to(monkeypatch, tmp_path / "config")
    asked: list[str] = []
    monkeypatch.setattr("airflow_batchjob.operators.leaving.connect", lambda _: asked.append("connected"))
    task, _, context = task_of(TaskInstance(task_id="work", try_number=number), completions="{{ 'many' }}")

    with pytest.raises(AirflowFailException, match="completions"):
        task.execute(context)

    assert len(asked) == number - 1  # the first try has nothing to look for


def jobs_of_run(cluster: Cluster, ti: TaskInstance) -> list[dict[str, Any]]:
    found = cluster.reach.ask("GET", "/apis/batch/v1/namespaces/default/jobs")["items"]
    key = "airflow-batchjob/task"
    return [job for job in found if ti.run_id in job["metadata"].get("annotations", {}).get(key, "")]


def test_a_worker_killed_in_the_last_try_leaves_the_job_to_its_deadline(batchjob_cluster: Cluster) -> None:
    task, ti, context = task_of(deadline_seconds=2)
    deferred(task, context)  # and nobody runs the trigger

    due = time.monotonic() + 30
    while time.monotonic() < due:
        conditions = job_of(batchjob_cluster, ti)["status"].get("conditions") or ()
        ended = [one["reason"] for one in conditions if one["type"] == "Failed" and one["status"] == "True"]
        if ended:
            break
        time.sleep(0.2)

    assert ended == ["DeadlineExceeded"]


def test_a_connection_that_was_edited_while_deferred_leads_to_the_same_end(
    batchjob_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, _, context = task_of(command=["true"])
    trigger = deferred(task, context)
    copy = tmp_path / "config"
    copy.write_text(batchjob_cluster.kubeconfig.read_text())
    connect_to(monkeypatch, copy)

    assert resumed(task, context, fired(trigger))["verdict"] == "met"


# ---------------------------------------------------------------- the tables


def names_in(path: Path) -> set[str]:
    """Return the tests of a module, those of classes as Class::test."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if hasattr(one, "name")}
        elif hasattr(node, "name"):
            found.add(node.name)
    return found


@pytest.mark.parametrize("page", ["docs/stopping.md", "tests/faults/README.md"])
def test_every_test_that_a_table_names_is_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", (ROOT / page).read_text())

    missing = [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)]

    assert len(named) > 20
    assert missing == []


def test_every_row_of_the_tables_has_its_test_or_a_reason() -> None:
    for page in ("docs/stopping.md", "tests/faults/README.md"):
        rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")]
        body = [row for row in rows if not row.startswith(("| what", "| report"))]
        assert [row for row in body if "::test_" not in row and "does not apply" not in row] == []
