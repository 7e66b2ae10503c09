"""What losing machines costs: seconds of work that were lost, and the time until all is done.

The same Job on the same machines, which are lost at a seeded rate: once it stays on spot, and once what
is left moves to on-demand. A part of `bench/rerun.py`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORK_SECONDS = 1.0
MACHINES, PODS_ON_ONE = 5, 4
LIMIT_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCost:
    """What one run took."""

    seconds: float
    pods: int
    lost_pods: int
    wasted_seconds: float
    fell_back: bool

    def told(self, name: str, indexes: int, rate: float) -> str:
        """Say it."""
        done = indexes * WORK_SECONDS
        return (
            f"{indexes} indexes of {WORK_SECONDS:g} s, machines lost so that {rate:.0%} of pods are: {name}: "
            f"{self.lost_pods} of {self.pods} pods lost, {self.wasted_seconds:.0f} s of work thrown away for "
            f"{done:.0f} s done, all done after {self.seconds:.1f} s{', fell back' if self.fell_back else ''}"
        )


@dataclass(slots=True)
class Work:
    """Watches the store of a cluster: for how long each pod ran, and what for."""

    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, tuple[float, bool]] = field(default_factory=dict)

    def hear(self, change: Any) -> None:
        """Take one change of the store."""
        if change.kind != "pods":
            return
        uid, phase = change.object["metadata"]["uid"], (change.object.get("status") or {}).get("phase")
        now = time.perf_counter()
        if phase == "Running":
            self.began.setdefault(uid, now)
        over = phase in ("Succeeded", "Failed") or change.type == "DELETED"
        if over and uid in self.began and uid not in self.ended:
            self.ended[uid] = now - self.began[uid], phase == "Succeeded"

    @property
    def wasted_seconds(self) -> float:
        """For how long pods ran that did not succeed."""
        return sum(seconds for seconds, succeeded in self.ended.values() if not succeeded)


def mean_seconds(rate: float) -> float:
    """Return the mean life of a machine on which that part of pods is lost: losses have no memory."""
    return -WORK_SECONDS / math.log(1 - rate)


async def run(policy: Any, indexes: int, rate: float, seed: int) -> SpotCost:
    """Run the Job once."""
    from airflow_batchjob.client.config import ClusterSettings, connect
    from airflow_batchjob.core.event import Order
    from airflow_batchjob.local.cluster import LocalCluster
    from airflow_batchjob.local.nodes.losses import LossRate
    from airflow_batchjob.local.nodes.machines import Capacity as Kind
    from airflow_batchjob.local.nodes.machines import Machine
    from airflow_batchjob.supervisor.submit import submit
    from airflow_batchjob.supervisor.supervise import supervise

    nothing = {"cpu": "0", "memory": "0"}
    size = {"cpu": str(PODS_ON_ONE), "memory": "8Gi", "reserved": nothing}
    machines = [Machine(name=f"spot-{number}", capacity=Kind.SPOT, **size) for number in range(MACHINES)]
    desk = Machine(name="desk", cpu=str(MACHINES * PODS_ON_ONE), memory="40Gi", reserved=nothing)
    losses = LossRate(mean_seconds=mean_seconds(rate), back_after_seconds=1.0, seed=seed)
    work, log = Work(), logging.getLogger("bench")
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder), machines=[desk, *machines], losses=losses) as cluster:
            cluster.store.subscribe(work.hear)
            async with await connect(ClusterSettings(kube_config_path=str(cluster.kubeconfig))) as client:
                began = time.perf_counter()
                order = await submit(client, _request(policy, indexes), log=log)
                assert isinstance(order, Order)  # noqa: S101  for the type
                verdict = await asyncio.wait_for(supervise(client, order, log=log), LIMIT_SECONDS)
                seconds = time.perf_counter() - began
    assert verdict.succeeded == indexes, verdict  # noqa: S101  else there is nothing to compare
    return SpotCost(
        seconds=seconds,
        pods=len(work.ended),
        lost_pods=verdict.losses,
        wasted_seconds=work.wasted_seconds,
        fell_back=verdict.fell_back,
    )


def _request(policy: Any, indexes: int) -> Any:
    from airflow_batchjob.core.capacity.capacity import Capacity
    from airflow_batchjob.core.capacity.profiles import read_profiles
    from airflow_batchjob.core.identity.names import TaskIdentity
    from airflow_batchjob.core.request.manifest import build
    from airflow_batchjob.core.request.spec import JobSpec
    from airflow_batchjob.supervisor.request import Request

    spec = JobSpec(
        image="none",
        command=["sleep", f"{WORK_SECONDS:g}"],
        completions=indexes,
        parallelism=MACHINES * PODS_ON_ONE,
        container_resources={"requests": {"cpu": "1", "memory": "8Mi"}},
        capacity=Capacity(choice=policy, profiles=read_profiles("label")),
    )
    built = build(spec, default_name="spot")
    return Request(
        manifest=built.manifest,
        thresholds=built.thresholds,
        identity=TaskIdentity("bench", "bench", "run", "spot"),
        holder="ti/1",
        logs="none",
    )


def report(indexes: int, rate: float, seed: int) -> None:
    """Measure both, and print."""
    from airflow_batchjob import SpotPolicy

    logging.getLogger("bench").setLevel(logging.ERROR)
    policies = {
        "spot alone": SpotPolicy(fallback=False, max_losses_per_index=None),
        "with a fallback at the second loss of an index": SpotPolicy(
            max_losses_per_index=1, fallback_max_running=MACHINES * PODS_ON_ONE
        ),
    }
    for name, policy in policies.items():
        print(asyncio.run(run(policy, indexes, rate, seed)).told(name, indexes, rate))
