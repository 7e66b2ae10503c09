"""Jobs that succeed: which pods are there at which time, and what is written in which order."""

from __future__ import annotations

from typing import Any

REACHED = [("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached")]


def test_one_pod_that_succeeds_completes_the_job(job: Any) -> None:
    one = job()

    one.end(one.first())

    assert one.conditions == REACHED
    assert one.status["succeeded"] == 1
    assert one.status["completionTime"] == "2026-01-01T00:00:00Z"
    assert "failed" not in one.status
    assert "active" not in one.status
    assert one.events == ["Completed"]


def test_a_pod_is_named_before_it_is_counted(job: Any) -> None:
    one = job()
    pod = one.first()
    before = len(one.statuses)

    one.end(pod)

    named, counted = one.statuses[before:]
    assert named["uncountedTerminatedPods"] == {"succeeded": [pod]}
    assert "succeeded" not in named
    assert [c["type"] for c in named["conditions"]] == ["SuccessCriteriaMet"]
    assert counted["uncountedTerminatedPods"] == {}


def test_a_succeeded_index_is_counted_in_the_same_write(indexed: Any) -> None:
    one = indexed(1)
    before = len(one.statuses)

    one.succeed(0)

    first, last = one.statuses[before:]
    assert (first["completedIndexes"], first["succeeded"], first["uncountedTerminatedPods"]) == ("0", 1, {})
    assert [c["type"] for c in first["conditions"]] == ["SuccessCriteriaMet"]
    assert [c["type"] for c in last["conditions"]] == ["SuccessCriteriaMet", "Complete"]


def test_pods_are_named_after_their_index(indexed: Any) -> None:
    one = indexed(3)

    stems = sorted(pod["metadata"]["name"][:4] for pod in one.live.values())
    hostnames = sorted(pod["spec"]["hostname"] for pod in one.live.values())
    one.succeed(0, 1, 2)

    assert stems == ["j-0-", "j-1-", "j-2-"]
    assert hostnames == ["j-0", "j-1", "j-2"]
    assert one.status["completedIndexes"] == "0-2"
    assert one.conditions == REACHED


def test_the_next_indexes_follow_when_two_have_succeeded(indexed: Any) -> None:
    one = indexed(5, 2)

    one.succeed(0, 1)

    assert one.status["completedIndexes"] == "0,1"
    assert one.indexes == [2, 3]


def test_there_are_never_more_pods_than_completions(job: Any) -> None:
    one = job(completions=2, parallelism=10)

    assert len(one.pods) == 2


def test_only_the_pods_still_needed_are_created(job: Any) -> None:
    one = job(completions=3, parallelism=2)

    one.succeed(*[pod["metadata"]["name"] for pod in one.live.values()])

    assert one.status["active"] == 1
    assert len(one.pods) == 3


def test_a_job_of_no_completions_is_complete_at_once(job: Any) -> None:
    one = job(completions=0)

    assert one.conditions == REACHED
    assert one.pods == {}
    assert {"startTime", "completionTime"} <= one.status.keys()


def test_parallelism_zero_is_a_pause_without_a_condition(job: Any) -> None:
    one = job(parallelism=0)

    assert one.pods == {}
    assert one.conditions == []
    assert "startTime" in one.status


def test_the_first_success_ends_a_work_queue(job: Any) -> None:
    one = job(parallelism=3, completions=None)
    first, second, third = (pod["metadata"]["name"] for pod in one.live.values())

    one.succeed(first)
    pods_then, conditions_then = len(one.pods), one.conditions
    one.fail(second)
    one.succeed(third)

    assert (pods_then, conditions_then) == (3, [])
    assert one.conditions == REACHED
    assert (one.status["succeeded"], one.status["failed"]) == (2, 1)


def test_a_success_policy_ends_the_others_uncounted(indexed: Any) -> None:
    one = indexed(4, successPolicy={"rules": [{"succeededIndexes": "0"}]})

    one.succeed(0)
    while_they_end = one.conditions, one.status["terminating"]
    one.leave()

    assert while_they_end == ([("SuccessCriteriaMet", "True", "SuccessPolicy")], 3)
    assert one.conditions[-1] == ("Complete", "True", "SuccessPolicy")
    assert one.status["conditions"][-1]["message"] == "Matched rules at index 0"
    assert one.status["succeeded"] == 1
    assert "failed" not in one.status


def test_a_success_policy_counts_only_what_it_lists(indexed: Any) -> None:
    rule = {"succeededIndexes": "0-4", "succeededCount": 2}
    one = indexed(10, successPolicy={"rules": [rule]})

    one.succeed(0, 7)
    before = one.conditions
    one.succeed(3)

    assert before == []
    assert one.conditions == [("SuccessCriteriaMet", "True", "SuccessPolicy")]


def test_every_container_gets_its_index_unless_it_has_one(indexed: Any) -> None:
    template = {
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "init"}],
            "containers": [
                {"name": "a", "env": [{"name": "X", "value": "1"}]},
                {"name": "b", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]},
            ],
        },
    }
    one = indexed(1, template=template)

    spec = next(iter(one.live.values()))["spec"]

    index = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {
            "fieldRef": {
                "apiVersion": "v1",
                "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']",
            }
        },
    }
    assert spec["initContainers"][0]["env"] == [index]
    assert spec["containers"][0]["env"] == [{"name": "X", "value": "1"}, index]
    assert spec["containers"][1]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]


def test_indexes_told_to_be_done_are_not_run(indexed: Any) -> None:
    one = indexed(10, suspend=True)
    one.job["status"] = {**one.status, "completedIndexes": "0-2,5-8"}

    one.change(suspend=False)
    ran = one.indexes
    one.succeed(*ran)

    assert ran == [3, 4, 9]
    assert (one.status["completedIndexes"], one.status["succeeded"]) == ("0-9", 10)
    assert one.conditions[1:] == REACHED
    assert one.conditions[0] == ("Suspended", "False", "JobResumed")


def test_every_second_index_done_starts_the_others(indexed: Any) -> None:
    one = indexed(10_000, 4, suspend=True)
    one.job["status"] = {**one.status, "completedIndexes": ",".join(map(str, range(0, 10_000, 2)))}

    one.change(suspend=False)

    assert one.indexes == [1, 3, 5, 7]
    assert one.status["succeeded"] == 5_000


def test_another_manager_is_left_alone(job: Any) -> None:
    one = job(managedBy="acme.io/x")

    assert one.status == {}
    assert one.pods == {}
