"""Older generations once the newest is reported: none stays longer than that one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_batchjob.core.event import OnFinish, Order, Verdict
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.unit.supervisor.small_cluster import SmallCluster, refused
from tests.unit.supervisor.test_submit import NEW_RUN, OLD_RUN, manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")
WEEK, DAY, HOUR = 604_800, 86_400, 3_600


async def run(cluster: SmallCluster, number: int, *, met: bool, **asked: Any) -> str:
    """Run one try to its end and conclude it; return the Job's name."""
    order = await submit(cluster, request(number, **asked), log=LOG, clock=clock)
    assert isinstance(order, Order)
    name = order.job.name
    if met:
        cluster.end(name, completedIndexes="0-3", succeeded=4)
    else:
        cluster.end(name, "Failed", "FailedIndexes", completedIndexes="0-1", failedIndexes="2-3")
    verdict = await supervise(cluster, order, log=LOG, clock=clock)
    assert isinstance(verdict, Verdict)
    await conclude(cluster, order, verdict, log=LOG)
    return name


def stays(cluster: SmallCluster, name: str) -> Any:
    return cluster.job(name)["spec"].get("ttlSecondsAfterFinished")


TTLS: dict[str, tuple[dict[str, Any], bool, int, int | None]] = {
    "met: it goes with the newest": ({}, True, 2, DAY + HOUR),
    "met, with a time of the author's own": ({"ttl_seconds_after_finished": 60}, True, 2, 60 + HOUR),
    "not met, a try left: as it was sent": ({}, False, 2, WEEK),
    "not met, the last try: its own week is over sooner": ({}, False, 3, WEEK),
    "not met, the last try, with a time of the author's own": (
        {"ttl_seconds_after_finished": 60},
        False,
        3,
        60 + HOUR,
    ),
    "kept for ever, as asked": ({"ttl_left_out": True}, True, 2, None),
}


@pytest.mark.parametrize(("asked", "met", "number", "want"), TTLS.values(), ids=TTLS.keys())
@virtual_time
async def test_how_long_an_older_one_stays(
    asked: dict[str, Any], met: bool, number: int, want: int | None
) -> None:
    cluster = SmallCluster()
    if "ttl_left_out" in asked:
        asked = asked | {"manifest": manifest(ttlSecondsAfterFinished=None)}
    first = await run(cluster, 1, met=False, **asked)
    await asyncio.sleep(HOUR)

    await run(cluster, number, met=met, **asked)

    assert stays(cluster, first) == pytest.approx(want, abs=30)


DELETED = {
    "delete, met": (OnFinish.DELETE, True, 2, True),
    "delete, not met, a try left": (OnFinish.DELETE, False, 2, False),
    "delete, not met, none left": (OnFinish.DELETE, False, 3, True),
    "delete when met, met": (OnFinish.DELETE_WHEN_MET, True, 2, True),
    "keep": (OnFinish.KEEP, True, 2, False),
}


@pytest.mark.parametrize(("on_finish", "met", "number", "want"), DELETED.values(), ids=DELETED.keys())
@virtual_time
async def test_what_is_deleted_is_deleted_with_all_that_is_older(
    on_finish: OnFinish, met: bool, number: int, want: bool
) -> None:
    cluster = SmallCluster()
    await run(cluster, 1, met=False, on_finish=on_finish)

    await run(cluster, number, met=met, on_finish=on_finish)

    assert (cluster.names() == []) == want
    assert len(cluster.names()) in {0, 2}


@virtual_time
async def test_the_job_of_another_run_is_left_as_it_is() -> None:
    cluster = SmallCluster()
    old = await run(cluster, 1, met=False, holder=OLD_RUN)

    await run(cluster, 1, met=True, holder=NEW_RUN, on_finish=OnFinish.DELETE)

    assert cluster.names() == [old]
    assert stays(cluster, old) == WEEK


@virtual_time
async def test_trouble_with_an_older_one_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    await run(cluster, 1, met=False)
    order = await submit(cluster, request(2), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.end(order.job.name, completedIndexes="0-3", succeeded=4)
    verdict = await supervise(cluster, order, log=LOG, clock=clock)
    cluster.always_fail = {"list_jobs": refused(403)}

    assert await conclude(cluster, order, verdict, log=LOG) == verdict
    assert "may stay longer" in caplog.text
