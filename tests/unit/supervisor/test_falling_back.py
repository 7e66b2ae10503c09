"""The way out of spot, step by step: each is one request that holds only for what was seen."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.marks import CAPACITY, FALL_BACK, Plan, UnderWay, Why
from airflow_batchjob.core.capacity.way_out import FallBack, Step
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.event import Order
from airflow_batchjob.core.identity.marks import HOLDER, STOP, UNDER_WAY
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.supervisor.falling_back import Leaving
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")
WORDS = "no machine comes"
SUSPEND = FallBack(step=Step.SUSPEND, why=Why.STOCK_OUT, words=WORDS)
MOVE, FOLLOW = (FallBack(step=step, why=Why.LOSS_RATE, words=WORDS) for step in (Step.MOVE, Step.FOLLOW))


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
    mark = UnderWay(doing=FALL_BACK, why=Why.STOCK_OUT, words=WORDS)
    cluster.annotate(order.job.name, UNDER_WAY, mark.to_text())
    return order


async def seen(cluster: SmallCluster, order: Order) -> Job:
    return await cluster.get_job(order.job.namespace, order.job.name)


def denied() -> ApiRefusedError:
    return ApiRefusedError("ask", code=422, reason="Invalid", message="denied by policy")


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


REFUSED: dict[str, tuple[FallBack, str]] = {
    "the suspension": (SUSPEND, "patch_job"),
    "the move": (MOVE, "patch_job"),
    "the follow-up Job": (FOLLOW, "create_job"),
}


@pytest.mark.parametrize(("step", "request_"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_refuses_for_good_stops_the_job_with_its_words(
    step: FallBack, request_: str, caplog: pytest.LogCaptureFixture
) -> None:
    @virtual_time
    async def test() -> None:
        cluster = SmallCluster()
        order = await (on_spot(cluster) if step is SUSPEND else at_rest(cluster))
        cluster.update(order.job.name, startTime=None)
        cluster.fail[request_] = [denied()]

        assert await take(cluster, order, step, await seen(cluster, order)) is None

        left = cluster.only()
        mark = json.loads(left["metadata"]["annotations"][STOP])
        assert left["status"]["conditions"][-1]["type"] == "Failed"
        assert mark["cause"] == ("stock_out" if step is SUSPEND else "losses")
        assert "denied by policy" in mark["words"]
        assert [record.levelname for record in caplog.records if "denied by policy" in record.message] == [
            "WARNING"
        ]

    test()


@virtual_time
async def test_a_follow_up_that_is_refused_once_its_predecessor_has_ended_is_an_error() -> None:
    cluster = SmallCluster()
    order = await at_rest(cluster)
    cluster.end(order.job.name, "Failed", "DeadlineExceeded")
    cluster.fail["create_job"] = [denied()]

    with pytest.raises(ApiRefusedError):
        await take(cluster, order, FOLLOW, await seen(cluster, order))


@pytest.mark.parametrize("step", [SUSPEND, MOVE], ids=["the suspension", "the move"])
def test_a_job_that_has_changed_since_is_looked_at_again(step: FallBack) -> None:
    @virtual_time
    async def test() -> None:
        cluster = SmallCluster()
        order = await (on_spot(cluster) if step is SUSPEND else at_rest(cluster))
        job = await seen(cluster, order)
        cluster.annotate(order.job.name, HOLDER, "ti/2")

        assert await take(cluster, order, step, job) is None

        assert STOP not in cluster.only()["metadata"]["annotations"]

    test()


@pytest.mark.parametrize("step", [SUSPEND, MOVE], ids=["the suspension", "the move"])
def test_a_job_that_is_gone_since_is_looked_at_again(step: FallBack) -> None:
    @virtual_time
    async def test() -> None:
        cluster = SmallCluster()
        order = await (on_spot(cluster) if step is SUSPEND else at_rest(cluster))
        job = await seen(cluster, order)
        cluster.remove(order.job.name)

        assert await take(cluster, order, step, job) is None

    test()
