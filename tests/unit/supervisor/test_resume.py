"""Telling a half made Job what is done, against an API that is in the way."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_batchjob.core.errors import ApiRefusedError, ApiUnavailableError
from airflow_batchjob.core.event import Order
from airflow_batchjob.core.identity.marks import HOLDER, RERUN, UNDER_WAY, RerunMark
from tests.unit.supervisor.small_cluster import SmallCluster, down, refused
from tests.unit.supervisor.test_submit import concluded, ordered, request, submitted
from tests.unit.supervisor.virtual import virtual_time

LOG = logging.getLogger("test")


async def half_done() -> SmallCluster:
    """Return a cluster with a Job that has failed in part."""
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Failed", done="0-1")
    return cluster


def newest(cluster: SmallCluster) -> dict[str, Any]:
    return max(
        cluster.objects.values(),
        key=lambda job: int(job["metadata"]["labels"]["airflow-batchjob/generation"]),
    )


def is_prepared(job: dict[str, Any]) -> bool:
    told = job["status"].get("completedIndexes") == "0,1"
    return told and job["spec"]["suspend"] is False and UNDER_WAY not in job["metadata"]["annotations"]


@virtual_time
async def test_after_two_looks_three_requests_make_a_job_that_runs_what_is_left() -> None:
    cluster = await half_done()
    cluster.asked.clear()

    await ordered(cluster, request(2))

    assert cluster.asked == ["list_jobs", "list_pods", "create_job", "patch_job_status", "patch_job"]
    assert is_prepared(newest(cluster))


LOST = {
    "no answer to telling": {"fail": {"patch_job_status": [down(), down()]}},
    "it was told, and the answer was lost": {"lose_answer_of": {"patch_job_status"}},
    "no answer to letting go": {"fail": {"patch_job": [down(), down()]}},
    "it was let go, and the answer was lost": {"lose_answer_of": {"patch_job"}},
    "it changed meanwhile": {"fail": {"patch_job_status": [refused(422, "Invalid")]}},
    "it changed between the two": {"fail": {"patch_job": [refused(422, "Invalid"), refused(422, "Invalid")]}},
}


@pytest.mark.parametrize("trouble", LOST.values(), ids=LOST.keys())
@virtual_time
async def test_passing_trouble_is_waited_out(trouble: dict[str, Any]) -> None:
    cluster = await half_done()
    for name, value in trouble.items():
        setattr(
            cluster,
            name,
            {key: list(each) for key, each in value.items()} if isinstance(value, dict) else set(value),
        )

    await ordered(cluster, request(2))

    assert is_prepared(newest(cluster))


@virtual_time
async def test_an_outage_ends_the_try_and_the_next_one_goes_on() -> None:
    cluster = await half_done()
    cluster.always_fail["patch_job_status"] = down()
    with pytest.raises(ApiUnavailableError):
        await submitted(cluster, request(2))
    del cluster.always_fail["patch_job_status"]

    order = await ordered(cluster, request(3))

    assert (order.generation, is_prepared(newest(cluster))) == (1, True)


@virtual_time
async def test_ranges_that_the_api_will_not_have_run_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await half_done()
    cluster.always_fail["patch_job_status"] = refused(422, "Invalid")

    order = await ordered(cluster, request(2))

    job = newest(cluster)
    assert (job["spec"]["suspend"], job["status"].get("completedIndexes")) == (False, None)
    assert "all of it runs" in caplog.text
    assert order.on_retry == "all"


@virtual_time
async def test_a_missing_right_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await half_done()
    cluster.always_fail["patch_job_status"] = refused(403)
    cluster.fail["patch_job"] = [refused(422, "Invalid")]  # so that there is a second round

    await ordered(cluster, request(2))

    assert caplog.text.count("resources: [jobs/status]") == 1
    assert newest(cluster)["spec"]["suspend"] is False


@virtual_time
async def test_indexes_asked_for_without_the_right_leave_no_half_made_job() -> None:
    cluster = await half_done()
    name = newest(cluster)["metadata"]["name"]
    cluster.annotate(name, RERUN, RerunMark(indexes="3").to_text())
    cluster.always_fail["patch_job_status"] = refused(403)

    with pytest.raises(ApiRefusedError, match=r"resources: \[jobs/status\]"):
        await submitted(cluster, request(2, max_tries=4))

    assert cluster.names() == [name]


@virtual_time
async def test_another_try_that_became_the_holder_is_left_to_it() -> None:
    cluster = await half_done()

    def taken() -> None:
        name = newest(cluster)["metadata"]["name"]
        cluster.annotate(name, HOLDER, "ti/3")

    cluster.fail["patch_job_status"] = [refused(422, "Invalid")]
    real_get = cluster.get_job

    async def get_job(namespace: str, name: str) -> Any:
        taken()
        return await real_get(namespace, name)

    setattr(cluster, "get_job", get_job)  # noqa: B010  somebody else acts while this one looks
    order = await submitted(cluster, request(2))

    assert isinstance(order, Order)
    assert newest(cluster)["metadata"]["annotations"][UNDER_WAY] == "preparing"
    assert newest(cluster)["metadata"]["annotations"][HOLDER] == "ti/3"


@virtual_time
async def test_a_job_that_is_deleted_while_it_is_prepared_is_made_again() -> None:
    cluster = await half_done()
    cluster.fail["patch_job_status"] = [refused(422, "Invalid")]
    cluster.after["list_jobs"] = lambda: None
    real_get = cluster.get_job
    first: list[str] = []

    async def get_job(namespace: str, name: str) -> Any:
        if not first:
            first.append(cluster.job(name)["metadata"]["uid"])
            cluster.remove(name)
        return await real_get(namespace, name)

    setattr(cluster, "get_job", get_job)  # noqa: B010  as above
    order = await ordered(cluster, request(2))

    assert order.job.uid != first[0]
    assert is_prepared(newest(cluster))


@virtual_time
async def test_a_request_is_carried_out_once() -> None:
    cluster = await half_done()
    old = newest(cluster)["metadata"]["name"]
    cluster.annotate(old, RERUN, RerunMark(indexes="3").to_text())

    order = await ordered(cluster, request(2, max_tries=4))

    job = cluster.job(order.job.name)
    assert job["status"]["completedIndexes"] == "0-2"
    assert job["metadata"]["annotations"]["airflow-batchjob/asserted"] == "2"
    assert json.loads(job["metadata"]["annotations"]["airflow-batchjob/resumes"])["asked"] == "3"
    assert RERUN not in cluster.job(old)["metadata"]["annotations"]
