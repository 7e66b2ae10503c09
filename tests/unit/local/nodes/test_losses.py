"""Machines lost and brought back, and what becomes of pods and Jobs on them. With real processes."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from airflow_batchjob.local.nodes.losses import LossRate, SpotLosses
from airflow_batchjob.local.nodes.runtime import UnknownMachineError

ON_SPOT = {"nodeSelector": {"airflow-batchjob/capacity": "spot"}}
IGNORE_LOSSES = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def disruption(change: Any) -> tuple[str, str] | None:
    for one in change.object["status"].get("conditions") or ():
        if one["type"] == "DisruptionTarget":
            return one["reason"], one["message"]
    return None


async def started_pid(cluster: Any, name: str = "pid") -> int:
    file = cluster.folder / name
    await cluster.until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


async def test_a_lost_machine_takes_its_processes_and_its_pods_are_cleared(cluster: Any) -> None:
    cluster.pod("sh", "-c", f"echo $$$$ > {cluster.folder}/pid; sleep 60", **ON_SPOT)
    pid = await started_pid(cluster)

    cluster.nodes.lose("spot")
    await cluster.until(lambda: not psutil.pid_exists(pid))
    still = cluster.get()["status"]["phase"]
    await cluster.until(lambda: cluster.get() is None)

    assert still == "Running"  # nobody is left to report on it
    last = cluster.changes[-1]
    assert disruption(last) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert last.object["status"]["phase"] == "Failed"
    assert not cluster.nodes.is_there("spot")


async def test_deleting_the_node_object_is_a_loss_too(cluster: Any) -> None:
    cluster.pod("sleep", "60", **ON_SPOT)
    await cluster.phase("Running")

    cluster.store.delete("nodes", "", "spot")

    await cluster.until(lambda: cluster.get() is None)


async def test_a_lost_index_runs_again_when_the_machine_is_back(cluster: Any) -> None:
    mark = cluster.folder / "mark"
    script = f"test -e {mark} && exit 0; touch {mark}; sleep 60"
    cluster.job(
        "sh",
        "-c",
        script,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        backoffLimit=2147483647,
        podReplacementPolicy="Failed",
        podFailurePolicy=IGNORE_LOSSES,
        pod=ON_SPOT,
    )
    await cluster.until(mark.exists)

    cluster.nodes.lose("spot", back_after_seconds=2)

    def unschedulable() -> Any:
        for pod in cluster.store.list("pods"):
            for one in pod["status"].get("conditions") or ():
                if one["type"] == "PodScheduled" and one["status"] == "False":
                    return one, pod["metadata"]["annotations"]
        return None

    (condition, annotations) = await cluster.until(unschedulable)
    status = await cluster.condition("Complete")

    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity"
    )
    assert annotations["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"
    assert "failed" not in status


async def test_a_reclaimed_machine_warns_first(cluster: Any) -> None:
    cluster.pod("sh", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", **ON_SPOT)
    await cluster.phase("Running")
    await asyncio.sleep(0.2)

    cluster.nodes.reclaim("spot", grace_seconds=1)
    await cluster.until(lambda: cluster.get() is None)
    there_then = cluster.nodes.is_there("spot")
    await cluster.until(lambda: not cluster.nodes.is_there("spot"))

    deleted = next(change for change in cluster.changes if change.type == "DELETED" and change.kind == "pods")
    assert disruption(deleted) == (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )
    assert there_then


async def test_machines_are_lost_at_a_rate_and_come_back(cluster: Any) -> None:
    losses = SpotLosses(cluster.nodes, LossRate(mean_seconds=0.05, back_after_seconds=0.05))
    losses.start()

    def lost() -> list[str]:
        return [
            c.object["metadata"]["name"] for c in cluster.changes if c.kind == "nodes" and c.type == "DELETED"
        ]

    await cluster.until(lambda: len(lost()) >= 3)
    losses.stop()

    assert set(lost()) == {"spot"}


async def test_a_machine_that_was_never_declared_is_named(cluster: Any) -> None:
    with pytest.raises(UnknownMachineError, match="no machine of this cluster"):
        cluster.nodes.lose("nowhere")
