"""Submitting against a small cluster: one Job per identity, whatever was there and whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_batchjob.core.errors import (
    ApiRefusedError,
    ApiUnavailableError,
    ForeignJobError,
)
from airflow_batchjob.core.event import Cause, Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import DEADLINE, HOLDER, REPORTED, STOP
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.request.budget import Thresholds
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster, condition, pod_of, refused
from tests.unit.supervisor.virtual import clock, virtual_time

LOG = logging.getLogger("test")
IDENTITY = TaskIdentity("prod", "nightly", "run-1", "embed")


def manifest(*, image: str = "embed:1", completions: int = 4, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "embed"},
        "spec": {
            "completions": completions,
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "ttlSecondsAfterFinished": 604_800,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
            },
            **spec,
        },
    }


def request(try_number: int = 1, **fields: Any) -> Request:
    spec = fields.pop("manifest", manifest())
    goal = fields.pop("thresholds", Thresholds(completions=spec["spec"]["completions"], indexed=True))
    return Request(
        manifest=spec,
        thresholds=goal,
        identity=IDENTITY,
        holder=fields.pop("holder", f"ti/{try_number}"),
        try_number=try_number,
        retries=2,
        **{"max_tries": 2} | fields,
    )


async def submitted(cluster: SmallCluster, asked: Request) -> Order | Verdict:
    return await submit(cluster, asked, log=LOG, clock=clock)


async def ordered(cluster: SmallCluster, asked: Request) -> Order:
    order = await submitted(cluster, asked)
    assert isinstance(order, Order)
    return order


async def judged(cluster: SmallCluster, asked: Request) -> Verdict:
    verdict = await submitted(cluster, asked)
    assert isinstance(verdict, Verdict)
    return verdict


def mark(job: dict[str, Any], key: str) -> Any:
    return json.loads(job["metadata"]["annotations"][key])


@virtual_time
async def test_the_first_try_submits_generation_0_in_the_clients_namespace() -> None:
    cluster = SmallCluster()

    order = await ordered(cluster, request())

    job = cluster.only()
    assert (order.generation, order.job.name) == (0, job["metadata"]["name"])
    assert order.job.namespace == job["metadata"]["namespace"] == "batch"
    assert job["metadata"]["annotations"][HOLDER] == order.holder == "ti/1"


@virtual_time
async def test_the_requests_own_namespace_comes_first() -> None:
    cluster = SmallCluster()

    order = await ordered(cluster, request(namespace="elsewhere"))

    assert order.job.namespace == "elsewhere"


@virtual_time
async def test_submitting_twice_attaches_to_the_one_job() -> None:
    cluster = SmallCluster()

    first, second = await ordered(cluster, request()), await ordered(cluster, request())

    assert first.job == second.job
    assert cluster.count("create_job") == 1


@virtual_time
async def test_a_retry_attaches_to_a_living_job_and_becomes_its_holder() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.start(first.job.name)

    second = await ordered(cluster, request(2))

    assert (second.job, second.holder) == (first.job, "ti/2")
    assert cluster.only()["metadata"]["annotations"][HOLDER] == "ti/2"


@virtual_time
async def test_attaching_brings_limits_up_to_what_is_asked_now() -> None:
    cluster = SmallCluster()
    await ordered(cluster, request(1, manifest=manifest(maxFailedIndexes=1)))

    await ordered(cluster, request(2, manifest=manifest(parallelism=9, backoffLimit=7)))

    spec = cluster.only()["spec"]
    assert (spec["parallelism"], spec["backoffLimit"]) == (9, 7)
    assert "maxFailedIndexes" not in spec


@virtual_time
async def test_attaching_leaves_a_pause_and_a_queues_parallelism_alone() -> None:
    cluster = SmallCluster()
    asked = manifest()
    asked["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpu"}
    order = await ordered(cluster, request(1, manifest=asked))
    cluster.update(order.job.name, spec={"suspend": True, "parallelism": 1})

    await ordered(cluster, request(2, manifest=asked))

    spec = cluster.only()["spec"]
    assert (spec["suspend"], spec["parallelism"]) == (True, 1)


@virtual_time
async def test_limits_that_the_api_refuses_do_not_keep_a_try_from_attaching(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SmallCluster()
    await ordered(cluster, request(1))
    cluster.fail["patch_job"] = [refused(422, "Invalid")]

    order = await ordered(cluster, request(2, manifest=manifest(parallelism=9)))

    assert cluster.only()["metadata"]["annotations"][HOLDER] == order.holder == "ti/2"
    assert cluster.only()["spec"]["parallelism"] == 2
    assert "keeps its limits" in caplog.text


@virtual_time
async def test_a_stop_between_reading_and_attaching_is_not_undone() -> None:
    cluster = SmallCluster()
    goal = Thresholds(completions=4, indexed=True, deadline_seconds=60)
    order = await ordered(cluster, request(1, thresholds=goal))

    def stopped_by_hand() -> None:
        name = order.job.name
        cluster.annotate(name, STOP, json.dumps({"cause": "stopped", "words": "by hand"}))
        cluster.update(name, spec={"activeDeadlineSeconds": 0})
        cluster.end(name, "Failed", "DeadlineExceeded")

    cluster.after["list_jobs"] = stopped_by_hand

    newer = await ordered(cluster, request(2, thresholds=goal))

    assert cluster.job(order.job.name)["spec"]["activeDeadlineSeconds"] == 0
    assert newer.generation == 1


@virtual_time
async def test_a_lost_answer_to_creating_is_found_again() -> None:
    cluster = SmallCluster()
    cluster.lose_answer_of = {"create_job"}

    order = await ordered(cluster, request())

    assert cluster.names() == [order.job.name]


@virtual_time
async def test_already_exists_is_ours_when_identity_and_generation_agree() -> None:
    cluster = SmallCluster()
    made = (await ordered(cluster, request())).job
    there = cluster.job(made.name)
    cluster.remove(made.name)

    cluster.after["list_jobs"] = partial(cluster.put, there)
    again = await ordered(cluster, request())

    assert again.job.name == made.name
    assert cluster.count("create_job") == 2


@virtual_time
async def test_a_foreign_job_of_our_name_is_named_and_left_alone() -> None:
    cluster = SmallCluster()
    name = (await ordered(cluster, request())).job.name
    cluster.remove(name)
    cluster.put({"metadata": {"name": name, "labels": {}, "annotations": {}}})

    with pytest.raises(ForeignJobError, match=f"batch/{name} exists and is not ours"):
        await submitted(cluster, request())

    assert cluster.names() == [name]


@virtual_time
async def test_a_refused_job_is_an_error_at_once() -> None:
    cluster = SmallCluster()
    cluster.fail["create_job"] = [refused(422, "Invalid")]

    with pytest.raises(ApiRefusedError):
        await submitted(cluster, request())

    assert cluster.count("create_job") == 1


@virtual_time
async def test_an_edited_image_stops_the_living_job_and_submits_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.start(first.job.name)

    second = await ordered(cluster, request(2, manifest=manifest(image="embed:2")))

    old = cluster.job(first.job.name)
    assert (second.generation, old["spec"]["activeDeadlineSeconds"]) == (1, 0)
    assert "image changed" in mark(old, STOP)["words"]
    assert "image changed" in caplog.text


@virtual_time
async def test_memory_and_parallelism_may_change_without_a_new_job() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    bigger = manifest(parallelism=4)
    bigger["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "8Gi"}}

    second = await ordered(cluster, request(2, manifest=bigger))

    assert second.job == first.job


@virtual_time
async def test_a_resume_key_stands_in_for_what_changes_every_time() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1, resume_key="day-1"))

    second = await ordered(cluster, request(2, manifest=manifest(image="embed:2"), resume_key="day-1"))

    assert second.job == first.job


@virtual_time
async def test_a_dying_job_is_waited_for() -> None:
    cluster = SmallCluster()
    cluster.slow_to_die = True
    first = await ordered(cluster, request(1))
    cluster.start(first.job.name)
    cluster.update(first.job.name, conditions=[], terminating=3)
    edited = request(2, manifest=manifest(image="embed:2"))
    submitting = asyncio.ensure_future(ordered(cluster, edited))
    await asyncio.sleep(300)
    assert not submitting.done()
    cluster.end(first.job.name, "Failed", "DeadlineExceeded")

    assert (await submitting).generation == 1


@virtual_time
async def test_a_job_that_does_not_die_is_an_error_that_names_pods_and_nodes() -> None:
    cluster = SmallCluster()
    cluster.slow_to_die = True
    first = await ordered(cluster, request(1))
    cluster.start(first.job.name)
    stuck = pod_of(first.job, 0, "Running")
    stuck["spec"]["nodeName"] = "gpu-7"
    cluster.pods = [stuck]
    began = clock()

    with pytest.raises(ApiUnavailableError, match=r"pod-0 on node gpu-7.*delete the Node") as raised:
        await submitted(cluster, request(2, manifest=manifest(image="embed:2")))

    assert raised.value.retryable
    assert 600 <= clock() - began < 660


def left_over(cluster: SmallCluster, order: Order, phase: str = "Running") -> dict[str, Any]:
    """Return a pod of a Job, with the labels that a Job's pods have."""
    pod = pod_of(order.job, 0, phase)
    pod["metadata"]["labels"] |= cluster.job(order.job.name)["metadata"]["labels"]
    pod["spec"]["nodeName"] = "gpu-7"
    return pod


@virtual_time
async def test_what_runs_of_a_job_that_is_gone_is_waited_for() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.pods = [left_over(cluster, first)]
    cluster.remove(first.job.name)
    submitting = asyncio.ensure_future(ordered(cluster, request(2)))
    await asyncio.sleep(300)
    assert cluster.names() == []

    cluster.pods[0]["status"]["phase"] = "Failed"

    assert (await submitting).job != first.job


@virtual_time
async def test_it_is_waited_for_where_an_older_generation_is_left_too() -> None:
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Failed", done="0-1")
    second = await ordered(cluster, request(2))
    cluster.pods = [left_over(cluster, second)]
    cluster.remove(second.job.name)
    submitting = asyncio.ensure_future(ordered(cluster, request(3)))
    await asyncio.sleep(300)
    assert not submitting.done()

    cluster.pods = []

    assert (await submitting).holder == "ti/3"


@virtual_time
async def test_pods_of_a_gone_job_that_do_not_go_are_an_error_that_names_them() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.pods = [left_over(cluster, first)]
    cluster.remove(first.job.name)
    began = clock()

    with pytest.raises(ApiUnavailableError, match=r"pod-0 on node gpu-7.*delete the pods") as raised:
        await submitted(cluster, request(2))

    assert raised.value.retryable
    assert 600 <= clock() - began < 660
    assert cluster.names() == []


@virtual_time
async def test_pods_that_are_over_are_not_waited_for() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.pods = [left_over(cluster, first, phase) for phase in ("Succeeded", "Failed")]
    cluster.remove(first.job.name)
    began = clock()

    await ordered(cluster, request(2))

    assert clock() - began < 5


@virtual_time
async def test_without_the_right_to_list_pods_a_start_goes_on_after_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.remove(first.job.name)
    cluster.always_fail = {"list_pods": refused(403)}

    await ordered(cluster, request(2))

    assert caplog.text.count("can't be seen, going on") == 1


@virtual_time
async def test_a_first_try_asks_for_no_pods() -> None:
    cluster = SmallCluster()

    await ordered(cluster, request(1))

    assert cluster.count("list_pods") == 0


@virtual_time
async def test_a_result_that_was_never_told_is_taken() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.end(first.job.name, completedIndexes="0-3", succeeded=4)

    verdict = await judged(cluster, request(2))

    assert (verdict.outcome, verdict.job) == (Outcome.MET, first.job)
    assert cluster.count("create_job") == 1


@virtual_time
async def test_a_taken_result_can_be_reported_by_the_try_that_took_it() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.end(first.job.name, completedIndexes="0-3", succeeded=4)
    asked = request(2)

    verdict = await judged(cluster, asked)
    await conclude(cluster, asked.order(verdict.job, verdict.generation), verdict, log=LOG)

    assert mark(cluster.only(), REPORTED)["try"] == 2


async def concluded(cluster: SmallCluster, asked: Request, *, kind: str, done: str) -> Order:
    """Run a Job to its end and report it."""
    order = await ordered(cluster, asked)
    cluster.end(order.job.name, kind, "FailedIndexes" if kind == "Failed" else "Done", completedIndexes=done)
    verdict = await judged(cluster, asked)
    await conclude(cluster, order, verdict, log=LOG)
    return order


@virtual_time
async def test_a_clear_after_success_runs_everything_again() -> None:
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Complete", done="0-3")

    order = await ordered(cluster, request(2, max_tries=3))

    assert order.generation == 1


@virtual_time
async def test_a_retry_after_a_reported_success_takes_its_result() -> None:
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Complete", done="0-3")

    verdict = await judged(cluster, request(2))

    assert verdict.outcome is Outcome.MET


@virtual_time
async def test_a_retry_after_a_failure_submits_the_next_generation_and_says_what_it_keeps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Failed", done="0-1")

    order = await ordered(cluster, request(2))

    assert order.generation == 1
    first = (
        "Generation 1 keeps 2 of 4 indexes, done in embed-a57a7932ba by 2027-01-15 08:00 UTC, and runs 2: 2,3"
    )
    assert first in caplog.text


@virtual_time
async def test_a_failure_under_this_very_try_is_told_again() -> None:
    cluster = SmallCluster()
    await concluded(cluster, request(1), kind="Failed", done="0-1")

    verdict = await judged(cluster, request(1))

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.TOO_FEW)


@virtual_time
async def test_a_failure_that_was_still_under_way_was_left_by_an_earlier_try() -> None:
    cluster = SmallCluster()
    name = (await ordered(cluster, request(1))).job.name
    cluster.update(name, conditions=[condition("FailureTarget", "FailedIndexes")])
    submitting = asyncio.ensure_future(ordered(cluster, request(1)))
    await asyncio.sleep(5)

    cluster.end(name, "Failed", completedIndexes="0-1")

    assert (await submitting).generation == 1


@virtual_time
async def test_a_living_job_of_a_deleted_run_is_refused_and_left_alone() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1, incarnation="old"))
    cluster.start(first.job.name)

    with pytest.raises(ForeignJobError, match=r"'old'.*'new'.*instance"):
        await submitted(cluster, request(1, incarnation="new"))

    assert "activeDeadlineSeconds" not in cluster.only()["spec"]


# Below Airflow 3.3 there is no incarnation: tries begin at 1 again, under an id that is made later.
OLD_RUN, NEW_RUN = "0199a000-0000-7000-8000-000000000000/1", "0199b000-0000-7000-8000-000000000000/1"


@virtual_time
async def test_a_living_job_of_a_deleted_run_is_known_by_its_try_too() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(holder=OLD_RUN))
    cluster.start(first.job.name)

    with pytest.raises(ForeignJobError, match=rf"'{OLD_RUN}'.*'{NEW_RUN}'.*instance"):
        await submitted(cluster, request(holder=NEW_RUN))

    assert cluster.only()["metadata"]["annotations"][HOLDER] == OLD_RUN


@virtual_time
async def test_what_a_deleted_run_had_met_is_not_taken_by_the_one_made_anew() -> None:
    cluster = SmallCluster()
    await concluded(cluster, request(holder=OLD_RUN), kind="Complete", done="0-3")

    order = await ordered(cluster, request(holder=NEW_RUN))

    assert order.generation == 1
    assert cluster.job(order.job.name)["spec"]["suspend"] is False


@virtual_time
async def test_an_older_generation_that_still_runs_is_stopped() -> None:
    cluster = SmallCluster()
    first = await ordered(cluster, request(1))
    cluster.start(first.job.name)
    cluster.label(first.job.name, **{"airflow-batchjob/generation": "0"})
    newer = json.loads(json.dumps(cluster.job(first.job.name)))
    newer["metadata"] |= {"name": "embed-newer"}
    newer["metadata"]["labels"]["airflow-batchjob/generation"] = "1"
    cluster.put(newer)

    order = await ordered(cluster, request(2))

    assert order.job.name == "embed-newer"
    assert cluster.job(first.job.name)["spec"]["activeDeadlineSeconds"] == 0


DEADLINES = {
    "deadline_seconds alone": (100, None, 100, "deadline_seconds"),
    "the wall clock alone": (None, 50.0, 50, "execution_timeout"),
    "the earlier of the two": (100, 50.0, 50, "execution_timeout"),
    "the other way round": (30, 50.0, 30, "deadline_seconds"),
}


@pytest.mark.parametrize(
    ("deadline", "left", "want_seconds", "want_stands_for"), DEADLINES.values(), ids=DEADLINES.keys()
)
@virtual_time
async def test_a_deadline_is_sent_with_what_it_stands_for(
    deadline: int | None, left: float | None, want_seconds: int, want_stands_for: str
) -> None:
    cluster = SmallCluster()
    goal = Thresholds(completions=4, indexed=True, deadline_seconds=deadline)

    asked = request(thresholds=goal)
    # The list before it takes a hundredth of a second.
    await ordered(cluster, replace(asked, wall_clock_end=None if left is None else clock() + left + 0.01))

    job = cluster.only()
    assert job["spec"]["activeDeadlineSeconds"] == want_seconds
    assert mark(job, DEADLINE)["stands_for"] == want_stands_for


@virtual_time
async def test_a_new_try_gets_the_whole_deadline_on_top_of_what_has_passed() -> None:
    cluster = SmallCluster()
    goal = Thresholds(completions=4, indexed=True, deadline_seconds=100)
    first = await ordered(cluster, request(1, thresholds=goal))
    cluster.start(first.job.name)
    await asyncio.sleep(70)

    await ordered(cluster, request(2, thresholds=goal))

    assert cluster.only()["spec"]["activeDeadlineSeconds"] == pytest.approx(170, abs=2)


@virtual_time
async def test_the_same_try_goes_on_with_what_is_left() -> None:
    cluster = SmallCluster()
    goal = Thresholds(completions=4, indexed=True, deadline_seconds=100)
    first = await ordered(cluster, request(1, thresholds=goal))
    cluster.start(first.job.name)
    await asyncio.sleep(70)

    await ordered(cluster, request(1, thresholds=goal))

    assert cluster.only()["spec"]["activeDeadlineSeconds"] == pytest.approx(100, abs=2)


@virtual_time
async def test_two_processes_submit_at_once_and_one_job_comes_of_it() -> None:
    cluster = SmallCluster()

    orders = await asyncio.gather(*(ordered(cluster, request()) for _ in range(5)))

    assert len({order.job for order in orders}) == 1
    assert len(cluster.names()) == 1
