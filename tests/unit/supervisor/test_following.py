"""A follow-up Job: whoever goes on with it, it is made once, and nobody waits for it for ever."""

from __future__ import annotations

import copy

import msgspec
import pytest

from airflow_batchjob.core.capacity.marks import Why
from airflow_batchjob.core.capacity.way_out import FallBack, Step
from airflow_batchjob.core.errors import ForeignJobError
from airflow_batchjob.core.event import Order
from airflow_batchjob.core.identity.marks import GENERATION, HOLDER, IDENTITY
from airflow_batchjob.supervisor.stopping import stop
from tests.unit.supervisor.small_cluster import SmallCluster
from tests.unit.supervisor.test_falling_back import at_rest, seen, take
from tests.unit.supervisor.virtual import clock, virtual_time

FOLLOW = FallBack(step=Step.FOLLOW, why=Why.STOCK_OUT, words="no machine comes")


def of_try(number: int, order: Order) -> Order:
    return msgspec.structs.replace(order, holder=f"ti/{number}")


async def made_by_the_holder_before(cluster: SmallCluster) -> tuple[Order, str]:
    """Return the order of try 2, and the name of the follow-up that try 1 made while it was taken over."""
    order = await at_rest(cluster)
    cluster.update(order.job.name, completedIndexes="0,1", succeeded=2)
    cluster.after["list_jobs"] = lambda: cluster.annotate(order.job.name, HOLDER, "ti/2")
    assert await take(cluster, order, FOLLOW, await seen(cluster, order)) is None
    (made,) = set(cluster.names()) - {order.job.name}
    assert cluster.job(made)["metadata"]["annotations"][HOLDER] == "ti/1"
    return of_try(2, order), made


@virtual_time
async def test_a_follow_up_that_the_holder_before_has_made_is_gone_on_with() -> None:
    cluster = SmallCluster()
    order, made = await made_by_the_holder_before(cluster)

    followed = await take(cluster, order, FOLLOW, await seen(cluster, order))

    assert followed is not None
    assert (followed.job.name, followed.generation, followed.holder) == (made, 1, "ti/2")
    successor = cluster.job(made)
    assert successor["metadata"]["annotations"][HOLDER] == "ti/2"
    assert (successor["spec"]["suspend"], successor["status"]["completedIndexes"]) == (False, "0,1")
    assert cluster.job(order.job.name)["status"]["conditions"][-1]["type"] == "Failed"


@virtual_time
async def test_a_follow_up_that_a_later_try_has_taken_is_left_to_it() -> None:
    cluster = SmallCluster()
    order, made = await made_by_the_holder_before(cluster)
    job = await seen(cluster, order)
    await stop(cluster, order.job, holder="ti/2", reason="replaced", new_holder="ti/3", clock=clock)
    cluster.annotate(made, HOLDER, "ti/3")

    followed = await take(cluster, order, FOLLOW, job)

    assert followed is not None
    assert followed.job.name == made
    assert cluster.job(made)["metadata"]["annotations"][HOLDER] == "ti/3"
    assert cluster.job(made)["spec"]["suspend"] is True


@virtual_time
async def test_an_older_generation_is_no_follow_up() -> None:
    cluster = SmallCluster()
    order = await at_rest(cluster)
    older = copy.deepcopy(cluster.only())
    cluster.label(order.job.name, **{GENERATION: "1"})
    job = await seen(cluster, order)
    cluster.put({**older, "metadata": {**older["metadata"], "name": "older"}})

    followed = await take(cluster, order, FOLLOW, job)

    assert followed is not None
    assert followed.generation == 2


@virtual_time
async def test_somebody_elses_job_in_place_of_the_follow_up_is_an_error() -> None:
    cluster = SmallCluster()
    order, made = await made_by_the_holder_before(cluster)
    cluster.label(made, **{IDENTITY: "somebody"})

    with pytest.raises(ForeignJobError):
        await take(cluster, order, FOLLOW, await seen(cluster, order))
