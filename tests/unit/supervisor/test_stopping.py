"""Stopping a Job: one request, guarded, and right whatever state the Job is in."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from airflow_batchjob.core.errors import ApiRefusedError, ApiUnavailableError
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.identity.marks import HOLDER, STOP
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster, down, refused
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")


async def running(cluster: SmallCluster, *, queue: str | None = None) -> JobRef:
    spec = manifest()
    if queue is not None:
        spec["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    order = await submit(cluster, request(manifest=spec), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.start(order.job.name)
    cluster.asked.clear()
    return order.job


async def stopped(cluster: SmallCluster, ref: JobRef, holder: str = "ti/1") -> bool:
    return await stop(cluster, ref, holder=holder, reason="enough", clock=clock)


@virtual_time
async def test_a_running_job_is_stopped_with_one_request_and_kept() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)

    assert await stopped(cluster, ref)

    job = cluster.only()
    assert cluster.asked == ["patch_job"]
    assert job["spec"]["activeDeadlineSeconds"] == 0
    mark = json.loads(job["metadata"]["annotations"][STOP])
    assert (mark["cause"], mark["words"]) == ("stopped", "enough")


@virtual_time
async def test_a_suspended_job_is_resumed_to_end_at_once() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.suspend(ref.name)

    assert await stopped(cluster, ref)

    assert cluster.only()["spec"]["suspend"] is False
    assert cluster.only()["status"]["conditions"][-1]["type"] == "Failed"


@virtual_time
async def test_a_job_that_never_started_under_a_queue_is_deleted() -> None:
    cluster = SmallCluster()
    ref = await running(cluster, queue="gpu")
    cluster.suspend(ref.name)
    cluster.update(ref.name, startTime=None, active=0)

    assert await stopped(cluster, ref)

    assert cluster.names() == []


@virtual_time
async def test_a_job_that_a_queue_has_sent_back_keeps_what_it_has_done() -> None:
    cluster = SmallCluster()
    ref = await running(cluster, queue="gpu")
    cluster.suspend(ref.name)
    cluster.update(ref.name, startTime=None, succeeded=2, completedIndexes="0,1")

    assert await stopped(cluster, ref)

    assert cluster.only()["status"]["completedIndexes"] == "0,1"


@virtual_time
async def test_another_holders_job_is_left_alone() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)

    assert not await stopped(cluster, ref, holder="ti/7")

    assert STOP not in cluster.only()["metadata"]["annotations"]


@virtual_time
async def test_another_job_of_the_same_name_is_left_alone() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    again = cluster.job(ref.name)
    cluster.remove(ref.name)
    cluster.put(again)

    assert not await stopped(cluster, ref)

    assert "activeDeadlineSeconds" not in cluster.only()["spec"]


@virtual_time
async def test_a_job_that_is_gone_is_no_error() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.remove(ref.name)

    assert not await stopped(cluster, ref)


@virtual_time
async def test_a_job_that_has_ended_is_told_so() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.end(ref.name, completedIndexes="0-3")

    assert not await stopped(cluster, ref)


@virtual_time
async def test_stopping_twice_at_once_is_stopping_once() -> None:
    cluster = SmallCluster()
    cluster.slow_to_die = True
    ref = await running(cluster)

    assert all(await asyncio.gather(stopped(cluster, ref), stopped(cluster, ref)))


@virtual_time
async def test_a_pause_or_a_resume_in_between_does_not_get_in_the_way() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.suspend(ref.name)
    stopping = asyncio.ensure_future(stopped(cluster, ref))
    await asyncio.sleep(0.015)  # it has been refused, and is reading
    cluster.resume(ref.name)

    assert await stopping

    assert cluster.only()["spec"]["activeDeadlineSeconds"] == 0


@virtual_time
async def test_a_stop_that_a_queue_undid_before_the_job_ended_is_sent_again() -> None:
    cluster = SmallCluster()
    ref = await running(cluster, queue="gpu")
    cluster.slow_to_die = True
    assert await stopped(cluster, ref)
    cluster.update(ref.name, conditions=[], succeeded=1)
    cluster.suspend(ref.name)  # preempted before its controller has seen the stop

    assert await stopped(cluster, ref)

    assert cluster.only()["spec"]["suspend"] is False


@virtual_time
async def test_the_next_try_takes_over_with_the_stop() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)

    await stop(
        cluster, ref, holder="ti/1", reason="edited", cause=Cause.STOPPED, new_holder="ti/2", clock=clock
    )

    assert cluster.only()["metadata"]["annotations"][HOLDER] == "ti/2"


@virtual_time
async def test_an_api_that_does_not_answer_is_the_callers_to_know() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.fail["patch_job"] = [down()]

    with pytest.raises(ApiUnavailableError):
        await stopped(cluster, ref)

    assert await stopped(cluster, ref)


@virtual_time
async def test_a_right_that_is_missing_is_an_error() -> None:
    cluster = SmallCluster()
    ref = await running(cluster)
    cluster.always_fail = {"patch_job": refused(403)}

    with pytest.raises(ApiRefusedError):
        await stopped(cluster, ref)
