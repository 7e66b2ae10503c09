"""Suspending, resuming, scaling, deleting: what becomes of pods, counts and clocks."""

from __future__ import annotations

from typing import Any

SUSPENDED = ("Suspended", "True", "JobSuspended")
RESUMED = ("Suspended", "False", "JobResumed")


def test_a_job_created_suspended_has_no_start_and_no_pods(job: Any) -> None:
    one = job(suspend=True)

    assert one.conditions == [SUSPENDED]
    assert "startTime" not in one.status
    assert one.pods == {}
    assert one.events == ["Suspended"]


def test_resuming_starts_the_clock_and_the_pods(job: Any) -> None:
    one = job(suspend=True)

    one.wait(5)
    one.change(suspend=False)

    assert one.conditions == [RESUMED]
    assert one.status["startTime"] == "2026-01-01T00:00:05Z"
    assert one.status["active"] == 1


def test_a_job_never_suspended_has_no_such_condition(job: Any) -> None:
    assert job().conditions == []


def test_suspending_deletes_pods_uncounted(job: Any) -> None:
    one = job(completions=3, parallelism=3)

    one.change(suspend=True)
    while_they_end = one.status["terminating"]
    one.leave()

    assert while_they_end == 3
    assert one.status["terminating"] == 0
    assert one.conditions == [SUSPENDED]
    assert not {"failed", "active", "startTime"} & one.status.keys()


def test_indexes_killed_by_a_suspension_run_again_and_completed_ones_do_not(indexed: Any) -> None:
    one = indexed(3, backoffLimitPerIndex=0)
    one.succeed(1)

    one.change(suspend=True)
    one.leave()
    one.change(suspend=False)

    assert one.indexes == [0, 2]
    assert (one.status["failedIndexes"], one.status["completedIndexes"]) == ("", "1")
    assert "failed" not in one.status


def test_the_deadline_starts_afresh_after_a_pause(job: Any) -> None:
    one = job(activeDeadlineSeconds=10)

    one.wait(9)
    one.change(suspend=True)
    one.leave()
    one.wait(100)
    one.change(suspend=False)
    left = one.look_again
    one.wait(9)

    assert left == 10
    assert one.conditions == [RESUMED]


def test_a_deadline_of_zero_stops_a_running_job_and_keeps_what_is_done(indexed: Any) -> None:
    one = indexed(4)
    one.succeed(0, 1)

    one.change(activeDeadlineSeconds=0)
    decided = one.conditions
    one.leave()

    assert decided == [("FailureTarget", "True", "DeadlineExceeded")]
    assert one.conditions[-1] == ("Failed", "True", "DeadlineExceeded")
    assert (one.status["completedIndexes"], one.status["failed"]) == ("0,1", 2)


def test_a_suspended_job_is_stopped_only_when_it_is_resumed_too(job: Any) -> None:
    one = job(suspend=True)

    one.change(activeDeadlineSeconds=0)
    while_suspended = one.conditions
    one.change(suspend=False)

    assert while_suspended == [SUSPENDED]
    assert one.conditions == [
        SUSPENDED,
        ("FailureTarget", "True", "DeadlineExceeded"),
        ("Failed", "True", "DeadlineExceeded"),
    ]
    assert one.pods == {}


def test_resuming_waits_for_old_pods_where_only_failed_ones_are_replaced(job: Any) -> None:
    one = job(podReplacementPolicy="Failed")

    one.change(suspend=True)
    one.change(suspend=False)
    while_they_end = one.status.get("active")
    one.leave()

    assert while_they_end is None
    assert one.status["active"] == 1


def test_lowering_parallelism_deletes_the_least_far_pods_uncounted(job: Any) -> None:
    one = job(completions=5, parallelism=5)
    names = list(one.pods)
    for name in names[3:]:
        one.pods[name]["status"] = {"phase": "Pending"}
    for name in names[:3]:
        one.pods[name]["spec"]["nodeName"] = "node"

    one.change(parallelism=2)
    one.leave()

    assert not set(names[3:]) & set(one.pods)
    assert len(one.pods) == 2
    assert "failed" not in one.status


def test_raising_parallelism_creates_more(job: Any) -> None:
    one = job(completions=5, parallelism=2)

    one.change(parallelism=4)

    assert one.status["active"] == 4


def test_scaling_an_elastic_job_down_drops_the_high_indexes_uncounted(indexed: Any) -> None:
    one = indexed(5)

    one.change(completions=3, parallelism=3)
    one.leave()

    assert one.indexes == [0, 1, 2]
    assert "failed" not in one.status


def test_scaling_down_forgets_completed_indexes_beyond_the_end(indexed: Any) -> None:
    one = indexed(4)
    one.succeed(0, 3)
    before = one.status["completedIndexes"]

    one.change(completions=3, parallelism=3)

    assert before == "0,3"
    assert (one.status["completedIndexes"], one.status["succeeded"]) == ("0", 1)


def test_scaling_down_to_what_is_done_completes(indexed: Any) -> None:
    one = indexed(3)
    one.succeed(0, 1)

    one.change(completions=2, parallelism=2)
    one.leave()

    assert one.conditions[-1] == ("Complete", "True", "CompletionsReached")


def test_a_job_being_deleted_creates_nothing_and_lets_go_of_its_pods(job: Any) -> None:
    one = job(completions=2)
    one.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    one.succeed(one.first())

    assert one.live == {}
    assert all(not pod["metadata"]["finalizers"] for pod in one.pods.values())
    assert one.status["succeeded"] == 1


def test_one_sync_creates_five_hundred_pods_at_most(job: Any) -> None:
    from airflow_batchjob.local.controller.model import Memory
    from airflow_batchjob.local.controller.sync import sync

    one = job(suspend=True)
    wide = {**one.job, "spec": {**one.job["spec"], "completions": 700, "parallelism": 700, "suspend": False}}

    plan = sync(wide, [], Memory(), one.now)

    assert len(plan.create) == 500
