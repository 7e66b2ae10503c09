"""Supervising against a small cluster, in virtual time: every way a Job can go, or be lost sight of."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.event import Cause, Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import DEADLINE, HOLDER, MANAGED_BY, STOP
from airflow_batchjob.core.request.budget import Thresholds
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.unit.supervisor.small_cluster import (
    SmallCluster,
    condition,
    down,
    pod_of,
    refused,
    unschedulable,
)
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")


@dataclass
class Scene:
    """A cluster, one Job on it, and a supervisor that watches it."""

    cluster: SmallCluster
    order: Order
    tasks: list[asyncio.Task[Verdict]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.order.job.name

    @property
    def job(self) -> dict[str, Any]:
        return self.cluster.job(self.name)

    def watched(self, order: Order | None = None) -> asyncio.Task[Verdict]:
        task = asyncio.ensure_future(supervise(self.cluster, order or self.order, log=LOG, clock=clock))
        self.tasks.append(task)
        return task


async def scene(*, wall_clock_seconds: float | None = None, **goal: Any) -> Scene:
    cluster = SmallCluster()
    thresholds = Thresholds(**{"completions": 4, "indexed": True, **goal})
    end = None if wall_clock_seconds is None else clock() + wall_clock_seconds
    asked = request(thresholds=thresholds, wall_clock_end=end, logs="failed")
    order = await submit(cluster, asked, log=LOG, clock=clock)
    assert isinstance(order, Order)
    return Scene(cluster, order)


async def soon(verdict: Awaitable[Verdict], within_seconds: float = 60) -> Verdict:
    """Return the verdict, which must come within so many seconds."""
    return await asyncio.wait_for(verdict, within_seconds)


async def given_up(task: asyncio.Task[Verdict]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@virtual_time
async def test_a_job_that_completes_is_met_and_found_within_seconds() -> None:
    at = await scene()
    watched = at.watched()
    at.cluster.start(at.name, active=2)
    await asyncio.sleep(4_000)

    at.cluster.end(at.name, completedIndexes="0-3", succeeded=4)

    verdict = await soon(watched, within_seconds=3)
    assert (verdict.outcome, verdict.cause, verdict.succeeded) == (Outcome.MET, Cause.COMPLETE, 4)


@virtual_time
async def test_a_job_that_has_ended_before_anyone_looks_is_judged() -> None:
    at = await scene()
    at.cluster.end(at.name, "Failed", "FailedIndexes", completedIndexes="0-2", failedIndexes="3")

    verdict = await soon(at.watched())

    assert (verdict.outcome, verdict.failed_indexes) == (Outcome.NOT_MET, "3")


@virtual_time
async def test_announced_ends_are_waited_for() -> None:
    at = await scene()
    watched = at.watched()
    at.cluster.update(at.name, conditions=[condition("FailureTarget", "FailedIndexes")], terminating=1)
    await asyncio.sleep(600)
    assert not watched.done()

    at.cluster.end(at.name, "Failed", "FailedIndexes", completedIndexes="0-2", failedIndexes="3")

    assert (await soon(watched)).outcome is Outcome.NOT_MET


@virtual_time
async def test_pods_that_fail_mean_nothing_while_the_job_goes_on() -> None:
    at = await scene()
    watched = at.watched()

    at.cluster.start(at.name, failed=17)
    await asyncio.sleep(7_200)

    assert not watched.done()
    await given_up(watched)


@virtual_time
async def test_leaving_ends_the_watch() -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(1_000)

    await given_up(watched)

    asked = len(at.cluster.asked)
    await asyncio.sleep(10_000)
    assert len(at.cluster.asked) == asked


# Losing sight


@virtual_time
async def test_a_deletion_that_carries_the_end_is_judged_by_it() -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(100)

    at.cluster.end(at.name, completedIndexes="0-3")
    at.cluster.remove(at.name)

    assert (await soon(watched)).outcome is Outcome.MET


@virtual_time
async def test_a_deleted_job_is_unknown_with_its_last_known_counts() -> None:
    at = await scene()
    watched = at.watched()
    at.cluster.start(at.name)
    at.cluster.update(at.name, completedIndexes="0,1", succeeded=2)
    await asyncio.sleep(100)

    at.cluster.remove(at.name)

    verdict = await soon(watched)
    assert (verdict.outcome, verdict.cause) == (Outcome.UNKNOWN, Cause.VANISHED)
    assert (verdict.succeeded, verdict.succeeded_indexes) == (2, "0,1")


@virtual_time
async def test_a_job_that_went_before_the_first_look_is_unknown() -> None:
    at = await scene()
    at.cluster.remove(at.name)

    assert (await soon(at.watched())).outcome is Outcome.UNKNOWN


@virtual_time
async def test_another_job_of_the_same_name_is_not_ours() -> None:
    at = await scene()
    copy = json.loads(json.dumps(at.job))
    watched = at.watched()
    await asyncio.sleep(10)

    at.cluster.remove(at.name)
    at.cluster.put(copy)
    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched)).outcome is Outcome.UNKNOWN


def newer_generation(at: Scene, holder: str) -> None:
    newer = json.loads(json.dumps(at.job))
    newer["metadata"]["name"] = "embed-newer"
    newer["metadata"]["labels"]["airflow-batchjob/generation"] = "1"
    newer["metadata"]["annotations"][HOLDER] = holder
    at.cluster.put(newer)


@virtual_time
async def test_a_newer_generation_of_ours_is_followed() -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(10)
    newer_generation(at, at.order.holder)
    at.cluster.remove(at.name)
    await asyncio.sleep(100)

    at.cluster.end("embed-newer", completedIndexes="0-3")

    verdict = await soon(watched)
    assert (verdict.outcome, verdict.job.name, verdict.generation) == (Outcome.MET, "embed-newer", 1)


@virtual_time
async def test_a_newer_generation_of_another_try_ends_the_supervisor() -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(10)

    newer_generation(at, "ti/2")
    at.cluster.remove(at.name)

    assert (await soon(watched)).outcome is Outcome.NOT_OURS


@virtual_time
async def test_a_job_that_lost_its_label_is_still_seen_through() -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(10)
    at.cluster.label(at.name, **{MANAGED_BY: None})
    await asyncio.sleep(1_000)
    assert not watched.done()

    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched, within_seconds=60)).outcome is Outcome.MET


@virtual_time
async def test_another_holder_ends_the_supervisor_without_a_verdict() -> None:
    at = await scene(wall_clock_seconds=1_000)
    watched = at.watched()
    await asyncio.sleep(10)

    at.cluster.annotate(at.name, HOLDER, "ti/2")

    verdict = await soon(watched)
    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_OURS, Cause.TAKEN_OVER)
    assert STOP not in at.job["metadata"]["annotations"]


# Clocks

both_kinds_of_server = pytest.mark.parametrize(
    "clears_start", [True, False], ids=["a pause clears the start (1.36)", "a pause keeps it (1.35)"]
)


@virtual_time
async def test_the_deadline_stops_the_job_and_counts_as_one() -> None:
    at = await scene(deadline_seconds=500, min_succeeded=2)
    watched = at.watched()
    at.cluster.start(at.name, completedIndexes="0")
    began = clock()

    verdict = await soon(watched, within_seconds=600)

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.DEADLINE)
    assert clock() - began == pytest.approx(500, abs=5)


@virtual_time
async def test_a_deadline_with_enough_successes_is_met() -> None:
    at = await scene(deadline_seconds=500, min_succeeded=2)
    at.cluster.start(at.name, completedIndexes="0,1")

    verdict = await soon(at.watched(), within_seconds=600)

    assert (verdict.outcome, verdict.cause) == (Outcome.MET, Cause.ENOUGH)


@both_kinds_of_server
@virtual_time
async def test_suspended_time_does_not_count_for_the_deadline(clears_start: bool) -> None:
    at = await scene(deadline_seconds=500)
    at.cluster.clears_start = clears_start
    watched = at.watched()
    at.cluster.start(at.name)
    await asyncio.sleep(200)
    at.cluster.suspend(at.name)
    await asyncio.sleep(10_000)
    at.cluster.resume(at.name)
    began = clock()

    verdict = await soon(watched, within_seconds=600)

    assert verdict.cause is Cause.DEADLINE
    assert clock() - began == pytest.approx(300, abs=5)


@both_kinds_of_server
@virtual_time
async def test_a_suspension_is_written_into_the_deadline_that_kubernetes_holds(clears_start: bool) -> None:
    at = await scene(deadline_seconds=500)
    at.cluster.clears_start = clears_start
    watched = at.watched()
    at.cluster.start(at.name)
    await asyncio.sleep(200)

    at.cluster.suspend(at.name)
    await asyncio.sleep(60)

    assert at.job["spec"]["activeDeadlineSeconds"] == pytest.approx(300, abs=2)
    spent = json.loads(at.job["metadata"]["annotations"][DEADLINE])["spent_seconds"]
    assert spent == pytest.approx(200, abs=2)
    await given_up(watched)


@both_kinds_of_server
@virtual_time
async def test_a_supervisor_that_starts_after_a_suspension_knows_what_was_spent(clears_start: bool) -> None:
    at = await scene(deadline_seconds=500)
    at.cluster.clears_start = clears_start
    first = at.watched()
    at.cluster.start(at.name)
    await asyncio.sleep(200)
    at.cluster.suspend(at.name)
    await asyncio.sleep(60)
    await given_up(first)
    at.cluster.resume(at.name)
    began = clock()

    verdict = await soon(at.watched(), within_seconds=600)

    assert verdict.cause is Cause.DEADLINE
    assert clock() - began == pytest.approx(300, abs=5)


@virtual_time
async def test_the_execution_timeout_stops_whatever_has_succeeded() -> None:
    at = await scene(wall_clock_seconds=100, min_succeeded=1)
    at.cluster.start(at.name, completedIndexes="0-2")

    verdict = await soon(at.watched(), within_seconds=110)

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.EXECUTION_TIMEOUT)


@virtual_time
async def test_the_execution_timeout_holds_while_suspended() -> None:
    at = await scene(wall_clock_seconds=100)
    watched = at.watched()
    at.cluster.suspend(at.name)

    verdict = await soon(watched, within_seconds=110)

    assert verdict.cause is Cause.EXECUTION_TIMEOUT
    assert at.job["spec"]["suspend"] is False


@virtual_time
async def test_a_job_that_completes_before_the_stop_arrives_is_met() -> None:
    at = await scene(wall_clock_seconds=100)
    watched = at.watched()
    at.cluster.start(at.name)
    await asyncio.sleep(99.5)

    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched)).outcome is Outcome.MET


@virtual_time
async def test_an_outage_at_the_deadline_delays_the_stop_and_no_more() -> None:
    at = await scene(deadline_seconds=100)
    watched = at.watched()
    at.cluster.start(at.name)
    await asyncio.sleep(90)
    at.cluster.always_fail = {"patch_job": down(), "get_job": down()}
    await asyncio.sleep(300)
    assert not watched.done()

    at.cluster.always_fail = {}

    assert (await soon(watched, within_seconds=60)).cause is Cause.DEADLINE


# Stock-out


async def starved(at: Scene, *, running: int = 0) -> asyncio.Task[Verdict]:
    at.cluster.start(at.name, active=2)
    waiting = pod_of(at.order.job, 1, conditions=[unschedulable()])
    at.cluster.pods = [waiting, *(pod_of(at.order.job, 2 + i, "Running") for i in range(running))]
    return at.watched()


@virtual_time
async def test_without_capacity_for_long_it_stops_with_the_schedulers_words() -> None:
    at = await scene(pending_seconds=900)
    watched = await starved(at)
    began = clock()

    verdict = await soon(watched, within_seconds=1_000)

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.STOCK_OUT)
    assert "Insufficient nvidia.com/gpu" in verdict.message
    assert clock() - began == pytest.approx(900, abs=5)


@virtual_time
async def test_a_shortage_while_a_pod_runs_is_no_stock_out() -> None:
    at = await scene(pending_seconds=900)
    watched = await starved(at, running=1)

    await asyncio.sleep(10_000)

    assert not watched.done()
    await given_up(watched)


@virtual_time
async def test_without_a_limit_it_waits_for_capacity(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    at = await scene()
    watched = await starved(at)

    await asyncio.sleep(3 * 3_600)

    assert not watched.done()
    assert caplog.text.count("wait for a machine") + caplog.text.count("waits for a machine") == 3
    await given_up(watched)


@virtual_time
async def test_the_clock_on_capacity_starts_anew_on_resume() -> None:
    at = await scene(pending_seconds=900)
    watched = await starved(at)
    await asyncio.sleep(800)
    pods, at.cluster.pods = at.cluster.pods, []
    at.cluster.suspend(at.name)
    await asyncio.sleep(5_000)
    assert not watched.done()
    for pod in pods:
        pod["metadata"]["creationTimestamp"] = pod_of(at.order.job, 1)["metadata"]["creationTimestamp"]
    at.cluster.pods = pods
    at.cluster.resume(at.name)
    began = clock()

    verdict = await soon(watched, within_seconds=1_000)

    assert verdict.cause is Cause.STOCK_OUT
    assert clock() - began == pytest.approx(900, abs=5)


# Waiting states


@virtual_time
async def test_a_suspension_is_said_at_once_and_then_hourly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    at = await scene()
    watched = at.watched()
    at.cluster.suspend(at.name)

    await asyncio.sleep(10)
    assert caplog.text.count("waiting until it is resumed") == 1
    await asyncio.sleep(3 * 3_600)

    assert caplog.text.count("waiting until it is resumed") == 4
    assert not watched.done()
    await given_up(watched)


@virtual_time
async def test_a_pod_on_a_silent_node_is_said_with_the_mend(caplog: pytest.LogCaptureFixture) -> None:
    at = await scene()
    at.cluster.start(at.name)
    at.cluster.update(
        at.name, active=0, terminating=1, conditions=[condition("FailureTarget", "FailedIndexes")]
    )
    stuck = pod_of(at.order.job, 0, "Running")
    stuck["metadata"]["deletionTimestamp"] = stuck["metadata"]["creationTimestamp"]
    stuck["spec"]["nodeName"] = "gpu-7"
    at.cluster.pods = [stuck]
    watched = at.watched()

    await asyncio.sleep(1_000)

    assert "node gpu-7 does not answer" in caplog.text
    assert "Delete the Node" in caplog.text
    await given_up(watched)


@virtual_time
async def test_pods_that_may_not_be_created_are_said(caplog: pytest.LogCaptureFixture) -> None:
    at = await scene()
    at.cluster.events = [
        {
            "reason": "FailedCreate",
            "involvedObject": {"kind": "Job", "uid": at.order.job.uid},
            "message": "admission webhook denied the request: no root",
            "lastTimestamp": "2027-01-15T08:00:00Z",
        }
    ]
    watched = at.watched()

    await asyncio.sleep(300)

    assert "no root" in caplog.text
    await given_up(watched)


@virtual_time
async def test_a_volume_that_is_not_there_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    at = await scene()
    at.cluster.start(at.name)
    stuck = pod_of(at.order.job, 0)
    stuck["spec"]["nodeName"] = "gpu-7"
    at.cluster.pods = [stuck]
    at.cluster.events = [
        {
            "reason": "FailedMount",
            "involvedObject": {"kind": "Pod", "name": stuck["metadata"]["name"]},
            "message": 'MountVolume.SetUp failed for volume "v" : secret "keys" not found',
            "lastTimestamp": "2027-01-15T08:00:00Z",
        }
    ]
    watched = at.watched()

    await asyncio.sleep(300)

    assert 'secret "keys" not found' in caplog.text
    assert at.cluster.asked.count("list_events") < 10
    await given_up(watched)


@virtual_time
async def test_forbidden_pods_and_events_are_one_warning_each_and_no_verdict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = await scene(pending_seconds=900)
    at.cluster.always_fail = {"list_pods": refused(403), "list_events": refused(403)}
    watched = at.watched()
    await asyncio.sleep(200)
    at.cluster.start(at.name, active=2)
    await asyncio.sleep(10_000)

    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched)).outcome is Outcome.MET
    assert caplog.text.count("pods can't be read") == 1
    assert caplog.text.count("events can't be read") == 1


@virtual_time
async def test_pods_are_not_listed_while_all_are_ready() -> None:
    at = await scene()
    watched = at.watched()
    at.cluster.start(at.name, active=2, ready=2)

    await asyncio.sleep(10_000)

    assert at.cluster.count("list_pods") == 0
    await given_up(watched)


@virtual_time
async def test_pods_of_a_job_in_which_nothing_happens_are_listed_less_and_less() -> None:
    at = await scene()
    watched = await starved(at)

    await asyncio.sleep(3_600)

    assert at.cluster.count("list_pods") < 80
    await given_up(watched)


# The API


@virtual_time
async def test_ten_minutes_of_outage_are_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    at = await scene()
    watched = at.watched()
    await asyncio.sleep(10)
    at.cluster.always_fail = {m: down() for m in ("list_jobs", "watch_jobs", "watching", "get_job")}
    await asyncio.sleep(600)
    assert not watched.done()
    at.cluster.always_fail = {}
    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched)).outcome is Outcome.MET
    assert STOP not in at.job["metadata"]["annotations"]


@virtual_time
async def test_an_outage_from_the_start_is_said_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    at = await scene()
    at.cluster.always_fail = {"list_jobs": down()}
    watched = at.watched()
    await asyncio.sleep(600)
    assert "does not answer" in caplog.text
    at.cluster.always_fail = {}
    at.cluster.end(at.name, completedIndexes="0-3")

    assert (await soon(watched)).outcome is Outcome.MET


@virtual_time
async def test_forbidden_jobs_are_an_error() -> None:
    at = await scene()
    at.cluster.always_fail = {"list_jobs": refused(403)}

    with pytest.raises(ApiRefusedError):
        await soon(at.watched())


@virtual_time
async def test_a_refusal_that_passes_delays_a_stop_and_no_more() -> None:
    at = await scene(deadline_seconds=600)
    at.cluster.start(at.name, active=2)
    at.cluster.fail = {"patch_job": [refused(403), refused(401)]}

    verdict = await soon(at.watched(), within_seconds=700)

    assert verdict.cause is Cause.DEADLINE


@virtual_time
async def test_a_refusal_that_lasts_is_an_error() -> None:
    at = await scene(deadline_seconds=600)
    at.cluster.start(at.name, active=2)
    at.cluster.always_fail = {"patch_job": refused(403)}
    began = clock()

    with pytest.raises(ApiRefusedError):
        await soon(at.watched(), within_seconds=1_000)

    assert clock() - began == pytest.approx(720, abs=20)


@virtual_time
async def test_pods_that_were_forbidden_for_a_while_are_looked_at_again() -> None:
    at = await scene(pending_seconds=900)
    at.cluster.fail = {"list_pods": [refused(403)]}
    watched = await starved(at)

    verdict = await soon(watched, within_seconds=3_000)

    assert verdict.cause is Cause.STOCK_OUT


@virtual_time
async def test_two_supervisors_of_one_job_do_no_harm() -> None:
    at = await scene(deadline_seconds=100)
    at.cluster.start(at.name)

    verdicts = await asyncio.gather(at.watched(), at.watched())

    assert {(v.outcome, v.cause) for v in verdicts} == {(Outcome.NOT_MET, Cause.DEADLINE)}


@virtual_time
async def test_a_stop_by_a_person_ends_it_without_a_retry() -> None:
    at = await scene(min_succeeded=1)
    watched = at.watched()
    at.cluster.start(at.name, completedIndexes="0-2")
    await asyncio.sleep(50)

    await stop(at.cluster, at.order.job, holder=at.order.holder, reason="not needed", clock=clock)

    verdict = await soon(watched)
    assert (verdict.outcome, verdict.cause, verdict.message) == (Outcome.NOT_MET, Cause.STOPPED, "not needed")


@virtual_time
async def test_cut_anywhere_and_begun_again_it_comes_to_the_same_end() -> None:
    for cut_after in (0.005, 0.015, 0.5, 99.9, 100.005, 100.012, 100.5, 101.0):
        at = await scene(deadline_seconds=100)
        at.cluster.start(at.name)
        first = at.watched()
        await asyncio.sleep(cut_after)
        if not first.done():
            await given_up(first)

        verdict = await soon(at.watched(), within_seconds=200)

        assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.DEADLINE), cut_after


@virtual_time
async def test_progress_is_said_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    at = await scene()
    watched = at.watched()
    at.cluster.start(at.name, active=2, ready=2)
    await asyncio.sleep(100)
    at.cluster.update(at.name, completedIndexes="0", succeeded=1)
    await asyncio.sleep(1_000)

    lines = [line for line in caplog.messages if " of 4 done" in line]
    assert [line.split(",")[0] for line in lines][-1] == f"{at.name}: 1 of 4 done"
    assert len(lines) <= 3
    await given_up(watched)


@virtual_time
async def test_an_order_survives_json_on_its_way_to_the_supervisor() -> None:
    at = await scene(pending_seconds=60)
    at.cluster.end(at.name, completedIndexes="0-3")

    order = Order.from_json_types(json.loads(json.dumps(at.order.to_json_types())))

    assert (await soon(at.watched(order))).outcome is Outcome.MET
    assert msgspec.structs.asdict(order) == msgspec.structs.asdict(at.order)


@virtual_time
async def test_a_job_that_is_not_indexed_is_judged_by_its_conditions() -> None:
    cluster = SmallCluster()
    plain = manifest()
    plain["spec"] = {"template": plain["spec"]["template"], "completions": 1}
    goal = Thresholds(completions=1, indexed=False)
    order = await submit(cluster, request(manifest=plain, thresholds=goal), log=LOG, clock=clock)
    assert isinstance(order, Order)
    cluster.end(order.job.name, "Failed", "BackoffLimitExceeded", failed=1)

    verdict = await soon(Scene(cluster, order).watched())

    assert (verdict.outcome, verdict.cause, verdict.failed) == (Outcome.NOT_MET, Cause.TOO_FEW, 1)
