"""Machines that are lost by themselves, at a seeded rate: every index is done, and no budget is spent."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from airflow_batchjob import SpotPolicy
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.core.event import Order, Outcome, Verdict
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.local.cluster import LocalCluster
from airflow_batchjob.local.nodes.losses import LossRate
from airflow_batchjob.local.nodes.machines import Capacity, Machine
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.spot.placing import spot

LOG = logging.getLogger("tests.spot")
SPOT = [Machine(name=f"spot-{n}", cpu="4", memory="4Gi", capacity=Capacity.SPOT) for n in range(3)]
MACHINES = [Machine(name="desk", cpu="4", memory="4Gi"), *SPOT]
LOSSES = LossRate(mean_seconds=2.5, back_after_seconds=1.0, seed=11)
ONE_CPU = {"requests": {"cpu": "1", "memory": "16Mi"}}


pytestmark = pytest.mark.local_only  # it runs a local cluster of its own, whose losses are seeded


class History:
    """What the store saw of the indexes."""

    def __init__(self) -> None:
        self.succeeded: set[int] = set()
        self.ran_again: list[str] = []  # pods of indexes that the Job had listed as completed before
        self._completed = IndexSet.of([])
        self._pods: set[str] = set()

    def hear(self, change: Any) -> None:
        found = change.object
        if change.kind == "jobs":
            self._completed = IndexSet.parse(found["status"].get("completedIndexes", ""))
        if change.kind != "pods":
            return
        name = found["metadata"]["name"]
        index = int(found["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        if name not in self._pods:
            self._pods.add(name)
            if index in self._completed:
                self.ran_again.append(name)
        if found.get("status", {}).get("phase") == "Succeeded":
            self.succeeded.add(index)


async def run(folder: Path, request: Request) -> tuple[Verdict, History]:
    history = History()
    async with LocalCluster(folder, machines=MACHINES, losses=LOSSES) as cluster:
        cluster.store.subscribe(history.hear)
        async with await connect(ClusterSettings(kube_config_path=str(cluster.kubeconfig))) as client:
            order = await submit(client, request, log=LOG)
            assert isinstance(order, Order)
            verdict = await asyncio.wait_for(supervise(client, order, log=LOG), 90)
    return verdict, history


POLICIES = {
    "on spot alone": SpotPolicy(fallback=False, max_losses_per_index=None),
    "with a way out": SpotPolicy(max_losses_per_index=0, fallback_max_running=12),
    "with a way out by the rate": SpotPolicy(
        max_losses_per_index=None, max_loss_rate="5%", fallback_max_running=12
    ),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
async def test_every_index_is_done_and_no_budget_is_spent(policy: SpotPolicy, tmp_path: Path) -> None:
    request = spot("sleep 0.7", policy=policy, completions=30, parallelism=12, container_resources=ONE_CPU)

    verdict, history = await run(tmp_path, request)

    assert (verdict.outcome, verdict.succeeded, verdict.failed) == (Outcome.MET, 30, 0)
    # A suspension takes running pods out of the Job's count before they end: one that still succeeds in
    # its grace counts for nothing, and its index runs again. What counts as done never does.
    assert history.succeeded == set(range(30))
    assert history.ran_again == []
    assert verdict.losses > 0
    assert verdict.fell_back == policy.fallback
