"""Jobs whose pods fail: budgets, delays, policies, and what counts."""

from __future__ import annotations

from typing import Any

import pytest

IGNORE_LOSSES = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def exit_rule(action: str, *codes: int, operator: str = "In") -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


def ended(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


def test_without_a_budget_the_first_failure_is_the_last(job: Any) -> None:
    one = job(backoffLimit=0)

    one.fail(one.first())

    assert one.conditions == ended("BackoffLimitExceeded")
    assert (one.status["failed"], len(one.pods)) == (1, 1)
    assert "completionTime" not in one.status
    assert one.status["conditions"][1]["message"] == "Job has reached the specified backoff limit"


def test_the_decision_is_written_before_the_end(job: Any) -> None:
    one = job(backoffLimit=0)
    pod, before = one.first(), len(one.statuses)

    one.fail(pod)

    decided, final = one.statuses[before:]
    assert [c["type"] for c in decided["conditions"]] == ["FailureTarget"]
    assert decided["uncountedTerminatedPods"] == {"failed": [pod]}
    assert (final["failed"], final["uncountedTerminatedPods"]) == (1, {})


def test_failures_hold_back_the_next_pod_twice_as_long_each_time(job: Any) -> None:
    one = job(backoffLimit=2)
    waits = []

    for _ in range(2):
        one.fail(one.first())
        waits.append(one.look_again)
        assert one.live == {}
        one.wait(one.look_again or 0)
    one.fail(one.first())

    assert waits == [10, 20]
    assert one.status["failed"] == 3
    assert one.conditions == ended("BackoffLimitExceeded")


def test_a_failing_job_waits_for_its_pods_to_leave_and_counts_them(job: Any) -> None:
    one = job(completions=3, parallelism=3, backoffLimit=0)

    one.fail(one.first())
    while_they_end = one.conditions, one.status["terminating"], one.status.get("active")
    one.leave()

    assert while_they_end == ([("FailureTarget", "True", "BackoffLimitExceeded")], 2, None)
    assert one.conditions == ended("BackoffLimitExceeded")
    assert (one.status["failed"], one.status["terminating"]) == (3, 0)


def test_a_success_makes_the_delay_short_again(job: Any) -> None:
    one = job(completions=2)

    one.fail(one.first())
    one.wait(10)
    one.succeed(one.first())
    one.wait(1)
    one.fail(one.first())

    assert one.look_again == 10


@pytest.mark.parametrize("limit", [0, 1])
def test_restarts_in_place_reach_the_limit(job: Any, limit: int) -> None:
    one = job(backoffLimit=limit, restart_policy="OnFailure")
    pod = one.first()

    one.restart(pod, 1)
    one.leave(exit_code=137)

    assert one.conditions == ended("BackoffLimitExceeded")
    assert one.status["failed"] == 1
    assert one.pods == {}


def test_restarts_below_the_limit_go_on(job: Any) -> None:
    one = job(backoffLimit=2, restart_policy="OnFailure")

    one.restart(one.first(), 1)

    assert one.conditions == []


def test_a_deadline_ends_what_runs(job: Any) -> None:
    one = job(activeDeadlineSeconds=3)
    waited = one.look_again

    one.wait(3)
    one.leave()

    assert waited == 3
    assert one.conditions == ended("DeadlineExceeded")
    assert one.status["failed"] == 1


def test_a_deadline_of_zero_makes_no_pod(job: Any) -> None:
    one = job(activeDeadlineSeconds=0)

    assert one.conditions == ended("DeadlineExceeded")
    assert one.pods == {}


def test_an_index_that_fails_for_good_leaves_the_others_running(indexed: Any) -> None:
    one = indexed(3, backoffLimitPerIndex=0)

    one.fail(1)
    then = one.indexes, one.status["failedIndexes"], one.conditions
    one.succeed(0, 2)

    assert then == ([0, 2], "1", [])
    assert (one.status["failedIndexes"], one.status["completedIndexes"]) == ("1", "0,2")
    assert one.conditions == ended("FailedIndexes")
    assert one.status["conditions"][1]["message"] == "Job has failed indexes"


def failure_counts(one: Any) -> list[str]:
    pods = sorted(one.pods.values(), key=lambda pod: pod["metadata"]["creationTimestamp"])
    key = "batch.kubernetes.io/job-index-failure-count"
    return [p["metadata"]["annotations"][key] for p in pods if p["spec"]["hostname"] == "j-0"]


def test_an_index_has_its_own_budget_and_count(indexed: Any) -> None:
    one = indexed(2, backoffLimitPerIndex=1)

    one.fail(0)
    one.wait(10)
    one.fail(0)

    assert failure_counts(one) == ["0", "1"]
    assert one.status["failedIndexes"] == "0"


def test_an_index_that_succeeds_at_last_is_no_failed_index(indexed: Any) -> None:
    one = indexed(2, backoffLimitPerIndex=1)

    one.fail(0)
    while_it_waits = one.status.get("failed")
    one.wait(10)
    one.succeed(0, 1)

    assert while_it_waits is None  # it carries the count until the next pod does
    assert (one.status["failed"], one.status["failedIndexes"]) == (1, "")
    assert one.conditions[-1] == ("Complete", "True", "CompletionsReached")


def test_too_many_failed_indexes_end_the_job(indexed: Any) -> None:
    one = indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1)

    one.fail(0)
    after_one = one.conditions
    one.fail(1)
    one.leave()

    assert after_one == []
    assert one.conditions == ended("MaxFailedIndexesExceeded")
    assert one.status["failed"] == 4


def test_three_indexes_failing_at_once_exceed_one(indexed: Any) -> None:
    one = indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1)

    one.fail(0, 1, 2)

    assert one.conditions == [("FailureTarget", "True", "MaxFailedIndexesExceeded")]
    assert one.status["failedIndexes"] == "0-2"


def test_with_one_pod_at_a_time_a_waiting_index_blocks_the_rest(indexed: Any) -> None:
    one = indexed(3, 1, backoffLimitPerIndex=1)

    one.fail(0)
    then, wait = one.indexes, one.look_again
    one.wait(10)

    assert (then, wait) == ([], 10)
    assert one.indexes == [0]


def test_a_waiting_index_wastes_one_slot_only(indexed: Any) -> None:
    one = indexed(3, 2, backoffLimitPerIndex=1)
    one.end(0, 1, sync=False)

    one.succeed(1)
    at_once = one.indexes
    one.wait(10)

    assert at_once == [2]
    assert one.indexes == [0, 2]


def test_without_a_budget_per_index_a_failure_holds_back_all(indexed: Any) -> None:
    one = indexed(3, 1)

    one.fail(0)
    then = one.indexes
    one.wait(10)

    assert then == []
    assert one.indexes == [0]


def test_a_fail_job_rule_names_container_code_and_rule(job: Any) -> None:
    one = job(podFailurePolicy={"rules": [exit_rule("FailJob", 42)]})
    pod = one.first()

    one.fail(pod, exit_code=42)

    assert one.conditions == ended("PodFailurePolicy")
    want = f"Container main for pod ns/{pod} failed with exit code 42 matching FailJob rule at index 0"
    assert one.status["conditions"][0]["message"] == want


def test_a_loss_that_is_ignored_is_replaced_and_never_counted(job: Any) -> None:
    one = job(backoffLimit=0, podFailurePolicy={"rules": [IGNORE_LOSSES]})

    one.end(one.first(), 143, conditions=["DisruptionTarget"])
    waited = one.look_again
    one.wait(10)

    assert waited == 10  # it does enter the delay
    assert one.conditions == []
    assert "failed" not in one.status
    assert one.status["active"] == 1


def test_an_ignored_loss_of_an_index_is_annotated(indexed: Any) -> None:
    one = indexed(1, backoffLimitPerIndex=0, podFailurePolicy={"rules": [IGNORE_LOSSES]})

    one.end(0, 143, conditions=["DisruptionTarget"])
    one.wait(10)

    annotations = one.live["0"]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert annotations["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"
    assert "failed" not in one.status


def test_a_fail_index_rule_spends_the_whole_budget(indexed: Any) -> None:
    one = indexed(2, backoffLimitPerIndex=5, podFailurePolicy={"rules": [exit_rule("FailIndex", 42)]})

    one.fail(0, exit_code=42)

    assert (one.status["failedIndexes"], one.status["failed"]) == ("0", 1)


def test_the_first_rule_that_matches_decides(job: Any) -> None:
    rules = [IGNORE_LOSSES, exit_rule("FailJob", 143)]
    one = job(podFailurePolicy={"rules": rules})

    one.end(one.first(), 143, conditions=["DisruptionTarget"])

    assert one.conditions == []


DELETED = {
    "a deleted pod counts at once": ({}, 1, 1),
    "with replacement of the failed only, it does not": ({"podReplacementPolicy": "Failed"}, None, 1),
}


@pytest.mark.parametrize(("spec", "want_failed", "want_terminating"), DELETED.values(), ids=DELETED.keys())
def test_deleting_a_pod_by_hand(
    job: Any, spec: dict[str, Any], want_failed: int | None, want_terminating: int
) -> None:
    one = job(**spec)

    one.delete(one.first(), grace=0)

    assert (one.status.get("failed"), one.status["terminating"]) == (want_failed, want_terminating)


def test_a_deleted_pod_is_replaced_while_it_still_terminates(job: Any) -> None:
    one = job()

    one.delete(one.first())
    one.wait(10)

    assert (one.status["active"], one.status["terminating"], one.status["failed"]) == (1, 1, 1)


def test_a_terminating_pod_that_ends_well_counts_as_success(job: Any) -> None:
    one = job(podReplacementPolicy="Failed")

    one.delete(one.first())
    one.leave(exit_code=0)

    assert one.conditions[-1] == ("Complete", "True", "CompletionsReached")


def test_a_kept_failed_pod_is_not_counted_twice(indexed: Any) -> None:
    one = indexed(1, backoffLimitPerIndex=3, backoffLimit=2)

    for wait in (10, 20):
        one.fail(0)
        one.sync()
        one.wait(wait)
    assert one.conditions == []
    one.fail(0)

    assert one.conditions == ended("BackoffLimitExceeded")
    assert one.status["failed"] == 3
