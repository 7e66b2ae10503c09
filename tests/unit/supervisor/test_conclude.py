"""After the verdict: report, TTL, tails, deletion; and that none of it changes the verdict."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_batchjob.core.deciding.report import for_event
from airflow_batchjob.core.event import Cause, OnFinish, Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import HOLDER, REPORTED
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.unit.supervisor.small_cluster import SmallCluster, down, pod_of, refused
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")
WEEK, DAY = 604_800, 86_400


async def ended(
    cluster: SmallCluster, *, met: bool, completions: int = 4, **asked: Any
) -> tuple[Order, Verdict]:
    spec = manifest(completions=completions)
    order = await submit(cluster, request(manifest=spec, **asked), log=LOG, clock=clock)
    assert isinstance(order, Order)
    if met:
        cluster.end(order.job.name, completedIndexes="0-3", succeeded=4)
    else:
        done = IndexSet.of(range(0, completions, 2))
        cluster.end(
            order.job.name,
            "Failed",
            completedIndexes=str(done),
            failedIndexes=str(IndexSet.full(completions) - done),
        )
    return order, await supervise(cluster, order, log=LOG, clock=clock)


@virtual_time
async def test_the_report_says_verdict_try_and_the_counts_that_tell_a_clear() -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=True)

    await conclude(cluster, order, verdict, log=LOG)

    reported = json.loads(cluster.only()["metadata"]["annotations"][REPORTED])
    assert reported == {"verdict": "met", "try": 1, "retries": 2, "max_tries": 2}


TTL: dict[str, tuple[bool, dict[str, Any], int | None]] = {
    "met: a day": (True, {}, DAY),
    "met: the author's own": (True, {"ttl_seconds_after_finished": 60}, 60),
    "not met, tries left: as it was sent": (False, {}, WEEK),
    "not met, tries left, whatever the author's own": (False, {"ttl_seconds_after_finished": 60}, WEEK),
    "not met, the last try: a week": (False, {"try_number": 3}, WEEK),
    "not met, the last try: the author's own": (
        False,
        {"try_number": 3, "ttl_seconds_after_finished": 60},
        60,
    ),
    "left out, as asked": (True, {"ttl_left_out": True}, WEEK),
}


@pytest.mark.parametrize(("met", "asked", "want"), TTL.values(), ids=TTL.keys())
@virtual_time
async def test_how_long_the_job_stays(met: bool, asked: dict[str, Any], want: int | None) -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=met, **asked)

    await conclude(cluster, order, verdict, log=LOG)

    assert cluster.only()["spec"]["ttlSecondsAfterFinished"] == want


DELETED = {
    "keep, met": (OnFinish.KEEP, True, 1, False),
    "keep, not met": (OnFinish.KEEP, False, 3, False),
    "delete, met": (OnFinish.DELETE, True, 1, True),
    "delete, not met, a try left": (OnFinish.DELETE, False, 1, False),
    "delete, not met, none left": (OnFinish.DELETE, False, 3, True),
    "delete when met, met": (OnFinish.DELETE_WHEN_MET, True, 1, True),
    "delete when met, not met": (OnFinish.DELETE_WHEN_MET, False, 3, False),
}


@pytest.mark.parametrize(("on_finish", "met", "number", "want"), DELETED.values(), ids=DELETED.keys())
@virtual_time
async def test_what_becomes_of_the_job(on_finish: OnFinish, met: bool, number: int, want: bool) -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=met, try_number=number, on_finish=on_finish)

    await conclude(cluster, order, verdict, log=LOG)

    assert (cluster.names() == []) == want


@virtual_time
async def test_another_holders_job_is_neither_reported_nor_deleted() -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=True, on_finish=OnFinish.DELETE)
    cluster.annotate(order.job.name, HOLDER, "ti/2")

    told = await conclude(cluster, order, verdict, log=LOG)

    assert told.outcome is Outcome.MET
    assert REPORTED not in cluster.only()["metadata"]["annotations"]


@virtual_time
async def test_a_supervisor_that_was_taken_over_concludes_nothing() -> None:
    cluster = SmallCluster()
    order, _ = await ended(cluster, met=True)
    cluster.annotate(order.job.name, HOLDER, "ti/2")
    verdict = await supervise(cluster, order, log=LOG, clock=clock)
    cluster.asked.clear()

    await conclude(cluster, order, verdict, log=LOG)

    assert cluster.asked == []


@pytest.mark.parametrize("trouble", [refused(403), down()], ids=["forbidden", "no answer"])
@virtual_time
async def test_trouble_with_the_report_is_a_warning(trouble: Any, caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=True, on_finish=OnFinish.DELETE)
    cluster.always_fail = {"patch_job": trouble}

    told = await conclude(cluster, order, verdict, log=LOG)

    assert told == verdict
    assert "could not be written" in caplog.text
    assert cluster.names() == [order.job.name], "what was not told must not be lost"


@virtual_time
async def test_tails_and_causes_come_from_the_failed_indexes_pods(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=False, logs="failed")
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    cluster.pods = [
        pod_of(order.job, index, "Failed", containerStatuses=[{"name": "main", "state": state}])
        for index in (1, 3)
    ]
    cluster.logs = {"pod-1": b"loading\nKeyError: 'id'\n", "pod-3": b"KeyError: 'id'\n"}

    told = await conclude(cluster, order, verdict, log=LOG)

    assert told.causes == "2x exit 3 in main (\"KeyError: 'id'\")"
    assert "[1 main] loading" in caplog.text


@virtual_time
async def test_where_no_index_is_listed_every_failed_pod_speaks() -> None:
    cluster = SmallCluster()
    order = await submit(cluster, request(logs="failed"), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.end(order.job.name, "Failed", "BackoffLimitExceeded", failed=2)
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    cluster.pods = [
        pod_of(order.job, index, "Failed", containerStatuses=[{"name": "main", "state": state}])
        for index in (1, 3)
    ]
    verdict = await supervise(cluster, order, log=LOG, clock=clock)

    told = await conclude(cluster, order, verdict, log=LOG)

    assert told.causes == "2x exit 3 in main"


@virtual_time
async def test_pods_that_cannot_be_read_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=False)
    cluster.always_fail = {"list_pods": refused(403)}

    told = await conclude(cluster, order, verdict, log=LOG)

    assert (told.outcome, told.causes) == (Outcome.NOT_MET, "")
    assert REPORTED in cluster.only()["metadata"]["annotations"]


@virtual_time
async def test_lists_that_an_event_had_no_room_for_are_read_again() -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=False, completions=3_000)
    event = for_event(verdict)
    assert event.failed_indexes is None

    told = await conclude(cluster, order, event, log=LOG)

    assert told.failed_indexes == verdict.failed_indexes
    assert not told.indexes_cut


@virtual_time
async def test_what_was_done_is_remembered_although_the_job_went_before_a_worker_came() -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=False, completions=3_000)
    cluster.remove(order.job.name)
    remembered: list[Verdict] = []

    told = await conclude(cluster, order, for_event(verdict), log=LOG, remember=remembered.append)

    assert (told.failed_indexes, told.indexes_cut) == (None, False)
    assert verdict.succeeded_indexes
    assert [kept.succeeded_indexes for kept in remembered] == [verdict.succeeded_indexes]


@virtual_time
async def test_concluding_twice_is_concluding_once() -> None:
    cluster = SmallCluster()
    order, verdict = await ended(cluster, met=True)

    first = await conclude(cluster, order, verdict, log=LOG)
    again = await conclude(cluster, order, verdict, log=LOG)

    assert (first, again) == (verdict, verdict)
    assert first.cause is Cause.COMPLETE
