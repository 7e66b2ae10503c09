"""The way out of spot, step by step: each is one request that holds only for what was seen."""

from __future__ import annotations

import logging
from typing import Any

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.marks import CAPACITY, FALL_BACK, Plan, UnderWay, Why
from airflow_batchjob.core.capacity.way_out import FallBack, Step
from airflow_batchjob.core.event import Order
from airflow_batchjob.core.identity.marks import STOP, UNDER_WAY
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.supervisor.falling_back import Leaving
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")
SUSPEND = FallBack(step=Step.SUSPEND, why=Why.STOCK_OUT, words="no machine comes")


def plan(**fields: Any) -> Plan:
    there = {"nodeSelector": {"pool": "on-demand"}}
    return Plan(**{"now": Kind.SPOT, "fallback": True, "on_demand": there, **fields})


async def on_spot(cluster: SmallCluster, **fields: Any) -> Order:
    """Return the order for a Job that runs on spot."""
    made = manifest()
    made["metadata"]["annotations"] = {CAPACITY: plan(**fields).to_text()}
    made["spec"]["template"].setdefault("metadata", {})["labels"] = {"airflow-batchjob/capacity": "spot"}
    order = await submit(cluster, request(manifest=made), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.start(order.job.name)
    cluster.asked.clear()
    return order


async def at_rest(cluster: SmallCluster, **fields: Any) -> Order:
    """Return the order for a Job that was suspended in order to fall back."""
    order = await on_spot(cluster, **fields)
    cluster.suspend(order.job.name)
    mark = UnderWay(doing=FALL_BACK, why=Why.STOCK_OUT, words="no machine comes")
    cluster.annotate(order.job.name, UNDER_WAY, mark.to_text())
    return order


async def seen(cluster: SmallCluster, order: Order) -> Job:
    return await cluster.get_job(order.job.namespace, order.job.name)


async def take(cluster: SmallCluster, order: Order, step: FallBack, job: Job) -> Order | None:
    return await Leaving(client=cluster, order=order, log=LOG, now=clock()).take(step, job, [])


@virtual_time
async def test_it_is_suspended_and_says_so() -> None:
    cluster = SmallCluster()
    order = await on_spot(cluster)

    await take(cluster, order, SUSPEND, await seen(cluster, order))

    assert cluster.only()["spec"]["suspend"] is True
    assert UNDER_WAY in cluster.only()["metadata"]["annotations"]


@virtual_time
async def test_a_stop_that_came_since_it_was_seen_is_not_undone() -> None:
    cluster = SmallCluster()
    cluster.slow_to_die = True
    order = await on_spot(cluster)
    job = await seen(cluster, order)
    assert await stop(cluster, order.job, holder=order.holder, reason="enough", clock=clock)

    await take(cluster, order, SUSPEND, job)

    left = cluster.only()
    assert (left["spec"]["suspend"], left["spec"]["activeDeadlineSeconds"]) == (False, 0)
    assert STOP in left["metadata"]["annotations"]
    assert UNDER_WAY not in left["metadata"]["annotations"]
