"""Machines that are lost by themselves, at a seeded rate: every index is done, and no budget is spent."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_batchjob import SpotPolicy
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.core.event import Order, Outcome, Verdict
from airflow_batchjob.local.cluster import LocalCluster
from airflow_batchjob.local.nodes.losses import LossRate
from airflow_batchjob.local.nodes.machines import Capacity, Machine
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.cluster.target import Target
from tests.spot.placing import spot

LOG = logging.getLogger("tests.spot")
SPOT = [Machine(name=f"spot-{n}", cpu="4", memory="4Gi", capacity=Capacity.SPOT) for n in range(3)]
MACHINES = [Machine(name="desk", cpu="4", memory="4Gi"), *SPOT]
LOSSES = LossRate(mean_seconds=2.5, back_after_seconds=1.0, seed=11)
ONE_CPU = {"requests": {"cpu": "1", "memory": "16Mi"}}


@pytest.fixture(autouse=True)
def only_here(cluster: Target) -> None:
    if not cluster.is_local:
        pytest.skip("the rate is the local cluster's")


class Successes:
    """How often each index has succeeded, by what the store says."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def hear(self, change: Any) -> None:
        if change.kind == "pods" and change.object.get("status", {}).get("phase") == "Succeeded":
            index = change.object["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            self.seen[change.object["metadata"]["uid"]] = int(index)


async def run(folder: Path, request: Request) -> tuple[Verdict, Counter[int]]:
    successes = Successes()
    async with LocalCluster(folder, machines=MACHINES, losses=LOSSES) as cluster:
        cluster.store.subscribe(successes.hear)
        async with await connect(ClusterSettings(kube_config_path=str(cluster.kubeconfig))) as client:
            order = await submit(client, request, log=LOG)
            assert isinstance(order, Order)
            verdict = await asyncio.wait_for(supervise(client, order, log=LOG), 90)
    return verdict, Counter(successes.seen.values())


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

    verdict, successes = await run(tmp_path, request)

    assert (verdict.outcome, verdict.succeeded, verdict.failed) == (Outcome.MET, 30, 0)
    # Kubernetes runs an index at least once: a pod may succeed in the moment in which a move takes it away.
    assert set(successes) == set(range(30))
    assert verdict.losses > 0
    assert verdict.fell_back == policy.fallback
