"""Losses beside one Job: what is known before its pods have been listed, and from then on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec

from airflow_batchjob.client.protocol import Page, WatchEvent
from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.marks import CAPACITY, Plan
from airflow_batchjob.core.event import Order
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.supervisor.losing import Losing
from airflow_batchjob.supervisor.pace import DEFAULT_PACE
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster, pod_of
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")


class Pods(SmallCluster):
    """A cluster whose pods are all ours and on spot, and whose watches say nothing."""

    async def list_pods(self, namespace: str, label_selector: str) -> Page[Pod]:
        await asyncio.sleep(0.01)
        return Page(tuple(msgspec.convert(pod, Pod) for pod in self.pods), "1")

    async def watch_pods(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Pod]]:
        await asyncio.sleep(300)
        nothing: tuple[WatchEvent[Pod], ...] = ()
        for event in nothing:
            yield event


async def on_spot(cluster: SmallCluster, *, running: int) -> tuple[Order, Job]:
    made = manifest()
    made["metadata"]["annotations"] = {CAPACITY: Plan(now=Kind.SPOT, fallback=True).to_text()}
    order = await submit(cluster, request(manifest=made), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.start(order.job.name, active=running, ready=running)
    cluster.pods = [pod_of(order.job, index, "Running") for index in range(running)]
    return order, await cluster.get_job(order.job.namespace, order.job.name)


@virtual_time
async def test_the_first_look_claims_nothing_of_pods_that_were_not_listed_yet() -> None:
    cluster, woken = Pods(), asyncio.Event()
    order, job = await on_spot(cluster, running=4)
    losing = Losing(cluster, order, LOG, DEFAULT_PACE, clock, wake=woken.set)

    first = await losing.look(job)
    await asyncio.wait_for(woken.wait(), 1)
    second = await losing.look(job)
    await losing.close()

    assert first is not None
    assert first.running is None
    assert second is not None
    assert second.running == 4
