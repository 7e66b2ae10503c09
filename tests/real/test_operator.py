"""The operator on a cluster: every way in which its Job can end, and what the task then says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_batchjob import (
    DeadlineError,
    OutcomeUnknownError,
    ThresholdNotMetError,
)
from airflow_batchjob.compat import AirflowFailException
from tests.cluster.target import Target
from tests.contract.asking import Asker, Object
from tests.contract.living import evict, none_left, ready, until
from tests.real.working import GRACE, UNTIL_TERM, pods, run, the_job, when_running, work

both_ways = pytest.mark.parametrize("deferrable", [True, False], ids=["in the triggerer", "in the worker"])

FAIL_ODD = ["sh", "-c", "echo shard $JOB_COMPLETION_INDEX; exit $((JOB_COMPLETION_INDEX % 2))"]
CAPACITY = "airflow-batchjob/capacity"


@both_ways
def test_all_indexes_succeed(api: Asker, deferrable: bool) -> None:
    task, ti, context = work(api, completions=3, deferrable=deferrable, on_finish="delete")

    result = run(task, context, api)

    assert (result["verdict"], result["succeeded_indexes"], result["completions"]) == ("met", "0-2", 3)
    assert ti.xcoms == result
    api.eventually(lambda: api.ask("GET", api.jobs()).body["items"] == [])
    api.eventually(lambda: pods(api) == [])


@both_ways
def test_some_indexes_fail(api: Asker, deferrable: bool) -> None:
    task, ti, context = work(api, completions=4, command=FAIL_ODD, deferrable=deferrable)

    with pytest.raises(
        ThresholdNotMetError, match=r"2 of 4 succeeded, 4 needed\. 2 failed: 1,3\. 2x exit 1 in main"
    ):
        run(task, context, api)

    assert (ti.xcoms["failed_indexes"], ti.xcoms["succeeded_indexes"]) == ("1,3", "0,2")


@both_ways
def test_the_fuse_burns(api: Asker, deferrable: bool) -> None:
    script = f"[ $JOB_COMPLETION_INDEX -lt 2 ] && exit 1; {UNTIL_TERM}"
    task, ti, context = work(
        api, completions=4, command=["sh", "-c", script], max_failed_indexes=1, deferrable=deferrable
    )

    with pytest.raises(ThresholdNotMetError):
        run(task, context, api)

    assert ti.xcoms["reason"] == "MaxFailedIndexesExceeded"
    assert (ti.xcoms["failed_indexes"], ti.xcoms["not_run_indexes"]) == ("0,1", "2,3")


def test_failures_within_the_tolerance_are_a_success(api: Asker) -> None:
    task, _, context = work(api, completions=4, command=FAIL_ODD, min_succeeded="50%")

    result = run(task, context, api)

    assert (result["verdict"], result["failed_indexes"]) == ("met", "1,3")


def test_enough_is_enough(api: Asker) -> None:
    script = f"[ $JOB_COMPLETION_INDEX = 0 ] && exit 0; {UNTIL_TERM}"
    task, _, context = work(
        api, completions=3, command=["sh", "-c", script], min_succeeded=1, stop_when_succeeded=True
    )

    result = run(task, context, api)

    assert (result["verdict"], result["succeeded_indexes"]) == ("met", "0")


@both_ways
def test_the_deadline_passes(api: Asker, deferrable: bool) -> None:
    task, _, context = work(api, command=["sh", "-c", UNTIL_TERM], deadline_seconds=4, deferrable=deferrable)

    with pytest.raises(DeadlineError, match="deadline_seconds=4"):
        run(task, context, api)


def test_a_retry_within_the_index_helps(api: Asker) -> None:
    task, _, context = work(api, completions=2, command=["sh", "-c", "exit 3"], retries_per_index=1)

    with pytest.raises(ThresholdNotMetError, match="2x exit 3 in main"):
        run(task, context, api)

    names = [
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] for pod in pods(api)
    ]
    assert sorted(names) == ["0", "0", "1", "1"]


def test_a_container_runs_out_of_memory(api: Asker) -> None:
    # dd takes a block of this size at once, and fills it.
    hungry = ["dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=20"]
    task, _, context = work(api, command=hungry, container_resources={"limits": {"memory": "64Mi"}})

    with pytest.raises(ThresholdNotMetError, match="1x OOMKilled at 64 MiB"):
        run(task, context, api)


@both_ways
def test_an_eviction_costs_no_retry(api: Asker, deferrable: bool) -> None:
    def evicts(api: Asker) -> None:
        [pod] = when_running(api)
        assert evict(api, pod).code == 201

    task, _, context = work(api, deferrable=deferrable, capacity="spot", **once_it_has_been(UNTIL_TERM))

    result = run(task, context, api, evicts)

    assert (result["verdict"], result["losses"]) == ("met", 1)
    assert "failed" not in the_job(api)["status"]


def once_it_has_been(script: str) -> dict[str, object]:
    """Return parameters of a task whose pods run a script, but end well where their loss count is not 0."""
    field = "metadata.annotations['batch.kubernetes.io/job-index-ignored-failure-count']"
    env = [{"name": "LOSSES", "valueFrom": {"fieldRef": {"fieldPath": field}}}]
    return {"env": env, "command": ["sh", "-c", f'[ -n "$LOSSES" ] && exit 0; {script}']}


@pytest.fixture
def spot(cluster: Target, server: Asker) -> Iterator[str]:
    """A spot machine to lose; it is there again afterwards."""
    nodes = server.ask("GET", "/api/v1/nodes", labelSelector=f"{CAPACITY}=spot").body["items"]
    name = min(node["metadata"]["name"] for node in nodes)
    yield name
    if server.ask("GET", f"/api/v1/nodes/{name}").code == 404:
        cluster.bring_back_node(name)


@pytest.mark.timeout(300)  # pods of a machine that is gone are noticed within a minute or so
def test_a_lost_machine_costs_no_retry(api: Asker, cluster: Target, spot: str) -> None:
    def loses(api: Asker) -> None:
        when_running(api, 2)
        cluster.lose_node(spot)

        def replaced() -> bool:
            return len([pod for pod in pods(api) if pod["status"]["phase"] == "Pending"]) == 2

        api.eventually(replaced, seconds=180)
        cluster.bring_back_node(spot)

    task, _, context = work(
        api,
        completions=2,
        capacity="spot",
        node_selector={"kubernetes.io/hostname": spot},
        **once_it_has_been(UNTIL_TERM),
    )

    result = run(task, context, api, loses)

    assert (result["verdict"], result["succeeded_indexes"], result["losses"]) == ("met", "0,1", 2)


@both_ways
def test_someone_deletes_the_job(api: Asker, deferrable: bool) -> None:
    def deletes(api: Asker) -> None:
        when_running(api)
        api.ask("DELETE", api.jobs(the_job(api)["metadata"]["name"]), {"propagationPolicy": "Background"})

    task, ti, context = work(api, command=["sh", "-c", UNTIL_TERM], deferrable=deferrable)

    with pytest.raises(OutcomeUnknownError):
        run(task, context, api, deletes)

    assert ti.xcoms["reason"] == "Vanished"


@both_ways
def test_someone_suspends_the_job_and_resumes_it(api: Asker, deferrable: bool) -> None:
    def suspends(api: Asker) -> None:
        when_running(api)
        name = the_job(api)["metadata"]["name"]
        api.merge(api.jobs(name), {"spec": {"suspend": True}})
        until(api, none_left, name)
        template: Object = {}
        api.merge(api.jobs(name), {"spec": {"suspend": False, **template}})
        until(api, ready(1), name)
        for pod in when_running(api):
            api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))

    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
    task, _, context = work(api, command=["sh", "-c", script], deferrable=deferrable)

    result = run(task, context, api, suspends)

    assert (result["verdict"], result["succeeded"]) == ("met", 1)
    conditions = {c["type"]: c["status"] for c in the_job(api)["status"]["conditions"]}
    assert conditions["Suspended"] == "False"


MEMORY = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
CPU = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max"


def test_two_containers_get_their_shares_of_a_machine(api: Asker) -> None:
    def container(name: str, weight: int) -> Object:
        limits = {"cpu": weight, "memory": f"{weight}Gi"}
        return {
            "name": name,
            "image": "busybox:1.36",
            "command": ["sh", "-c", f"{MEMORY}; {CPU}"],
            "resources": {"limits": limits},
        }

    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "shares"},
        "spec": {
            "completions": 1,
            "completionMode": "Indexed",
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [container("big", 3), container("small", 1)]}
            },
        },
    }
    task, _, context = work(
        api,
        manifest=json.dumps(manifest),
        machine="cpu=1,memory=1Gi",
        image=None,
        command=None,
        pod=GRACE,
    )

    result = run(task, context, api)

    assert result["verdict"] == "met"
    [pod] = pods(api)
    limits = {one["name"]: one["resources"]["limits"] for one in pod["spec"]["containers"]}
    want = {name: (bytes_of(one["memory"]), microseconds_of(one["cpu"])) for name, one in limits.items()}
    assert want["big"][0] > 2 * want["small"][0]
    if api.is_local:
        return  # containers are processes there; their memory is watched, their cores are not limited
    said = {
        name: api.ask("GET", api.core("pods", pod["metadata"]["name"], "log"), container=name).body.split()
        for name in limits
    }
    assert {name: (int(memory), int(cpu)) for name, (memory, cpu) in said.items()} == want


def test_fields_that_kubernetes_does_not_know_are_refused_all_at_once(api: Asker) -> None:
    slips = {"spec": {"nodeSelector": {}}, "volumes": [{"name": "data", "hostPth": {"path": "/data"}}]}
    task, _, context = work(api, pod=slips)

    with pytest.raises(AirflowFailException) as told:
        run(task, context, api)

    for field in ("spec.template.spec.spec", "spec.template.spec.volumes[0].hostPth"):
        assert f'unknown field "{field}"' in str(told.value)
    assert api.ask("GET", api.jobs()).body["items"] == []


def bytes_of(quantity: str) -> int:
    assert quantity.endswith("Mi")
    return int(quantity[:-2]) * 1024**2


def microseconds_of(quantity: str) -> int:
    """Return how long of each 100 ms a container may run."""
    assert quantity.endswith("m")
    return int(quantity[:-1]) * 100


DAG_FILE = """
from airflow.sdk import DAG
from airflow_batchjob import BatchJobOperator, BatchJobSensor

with DAG({dag_id!r}, schedule=None):
    first = BatchJobOperator(
        task_id="first",
        image="busybox:1.36",
        command=["sh", "-c", "exit $((JOB_COMPLETION_INDEX % 2))"],
        completions=4,
        min_succeeded=2,
        namespace={namespace!r},
        deferrable={deferrable},
    )
    first >> BatchJobSensor(task_id="half", of_task=first, until="50%", deferrable={deferrable})
"""


RUN_IT = """
import json
from airflow.dag_processing.dagbag import DagBag

[dag] = DagBag(bundle_name="dags-folder").dags.values()
ended = dag.test()
pulled = [
    ended.get_task_instance(name).xcom_pull(task_ids=name, key="return_value") for name in ("first", "half")
]
print("ended as", json.dumps([str(ended.state), pulled]))
"""


@both_ways
@pytest.mark.timeout(300)
def test_a_whole_dag_run(api: Asker, airflow_database: None, tmp_path: Path, deferrable: bool) -> None:
    dag_id = f"on_a_cluster_{'there' if deferrable else 'here'}"
    text = DAG_FILE.format(dag_id=dag_id, namespace=api.namespace, deferrable=deferrable)
    (tmp_path / "a_dag.py").write_text(text)

    # A process of its own, since the folder of DAGs is read once.
    done = subprocess.run(
        [sys.executable, "-c", RUN_IT], capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    [told] = [line for line in done.stdout.splitlines() if line.startswith("ended as ")]
    state, results = json.loads(told.removeprefix("ended as "))
    assert state == "success", done.stdout
    assert [result["succeeded_indexes"] for result in results] == ["0,2", "0,2"]
