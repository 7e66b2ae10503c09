"""How Jobs end: succeeded, failed, stopped. Through the API, with real containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.asking import Asker, Object, indexed, job

SUCCEEDS = ["true"]
FAILS = ["sh", "-c", "exit 1"]
# A shell that takes SIGTERM at once, so that nothing waits for the grace.
LASTS = ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.1; done"]


def runs(*command: str, **fields: Any) -> Object:
    """Return a pod's fields with one container that runs a command."""
    main = {"name": "main", "image": "busybox:1.36", "command": list(command)}
    return {"containers": [main], "terminationGracePeriodSeconds": 2, **fields}


def by_index(**commands: str) -> Object:
    """Return a pod's fields whose command depends on its index: ``_0="exit 1"``; else it lasts."""
    cases = " ".join(f"{name[1:]}) {command};;" for name, command in commands.items())
    lasts = "trap 'exit 143' TERM; while :; do sleep 0.1; done"
    return runs("sh", "-c", f"case $JOB_COMPLETION_INDEX in {cases} *) {lasts};; esac")


def conditions(seen: Object) -> list[tuple[str, str]]:
    return [(c["type"], c["reason"]) for c in seen["status"].get("conditions") or () if c["status"] == "True"]


def until(api: Asker, true: Callable[[Object], Any], name: str = "j") -> Object:
    """Wait until something is true of a Job; return the Job."""

    def look() -> Object | None:
        seen = api.ask("GET", api.jobs(name)).body
        return seen if true(seen) else None

    found: Object = api.eventually(look, seconds=40)
    return found


def ended(api: Asker, name: str = "j") -> Object:
    return until(api, lambda seen: {"Complete", "Failed"} & {c[0] for c in conditions(seen)}, name)


def pods_of(api: Asker, name: str = "j") -> list[Object]:
    answer = api.ask("GET", api.core("pods"), labelSelector=f"batch.kubernetes.io/job-name={name}")
    items: list[Object] = answer.body["items"]
    return items


ENDS: dict[str, tuple[Object, list[tuple[str, str]], Object]] = {
    "32 one pod that succeeds": (
        job(pod=runs(*SUCCEEDS)),
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
        {"succeeded": 1, "failed": None, "active": None, "ready": 0, "terminating": 0},
    ),
    "33 three indexes": (
        indexed(completions=3, parallelism=3, pod=runs(*SUCCEEDS)),
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
        {"succeeded": 3, "completedIndexes": "0-2", "failedIndexes": None},
    ),
    "37 no completions": (
        job(completions=0, pod=runs(*SUCCEEDS)),
        [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")],
        {"succeeded": None},
    ),
    "40 a success policy": (
        indexed(
            completions=4,
            parallelism=4,
            successPolicy={"rules": [{"succeededIndexes": "0"}]},
            pod=by_index(_0="exit 0"),
        ),
        [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")],
        {"succeeded": 1, "failed": None, "completedIndexes": "0"},
    ),
    "43 no budget": (
        job(backoffLimit=0, pod=runs(*FAILS)),
        [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")],
        {"failed": 1, "succeeded": None, "completionTime": None},
    ),
    "45 what still runs is killed and counted": (
        indexed(completions=3, parallelism=3, backoffLimit=0, pod=by_index(_1="sleep 1; exit 1")),
        [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")],
        {"failed": 3, "active": None, "terminating": 0},
    ),
    "48 a restart in place without a budget": (
        job(backoffLimit=0, pod=runs("sh", "-c", "sleep 1; exit 1", restartPolicy="OnFailure")),
        [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")],
        {"failed": 1},
    ),
    "49 a deadline": (
        job(activeDeadlineSeconds=2, pod=runs(*LASTS)),
        [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")],
        {"failed": 1},
    ),
    "50 a deadline of zero": (
        job(activeDeadlineSeconds=0, pod=runs(*LASTS)),
        [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")],
        {"failed": None},
    ),
    "52 and R8 a failed index beside others": (
        indexed(
            completions=3,
            parallelism=3,
            backoffLimitPerIndex=0,
            pod=by_index(_0="exit 0", _1="exit 1", _2="exit 0"),
        ),
        [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")],
        {"failedIndexes": "1", "completedIndexes": "0,2", "succeeded": 2, "failed": 1},
    ),
    "55 too many failed indexes": (
        indexed(
            completions=4,
            parallelism=4,
            backoffLimitPerIndex=0,
            maxFailedIndexes=1,
            pod=by_index(_0="exit 1", _1="sleep 1; exit 1"),
        ),
        [("FailureTarget", "MaxFailedIndexesExceeded"), ("Failed", "MaxFailedIndexesExceeded")],
        {"failed": 4, "active": None},
    ),
    "61 a rule that fails the index": (
        indexed(
            completions=2,
            parallelism=2,
            backoffLimitPerIndex=5,
            podFailurePolicy={
                "rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
            },
            pod=by_index(_0="exit 42", _1="exit 0"),
        ),
        [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")],
        {"failedIndexes": "0", "completedIndexes": "1", "failed": 1},
    ),
}


@pytest.mark.parametrize(("what", "want_conditions", "want"), ENDS.values(), ids=ENDS.keys())
def test_an_end(api: Asker, what: Object, want_conditions: list[tuple[str, str]], want: Object) -> None:
    api.have_job(what)

    seen = ended(api)

    assert conditions(seen) == want_conditions
    assert {key: seen["status"].get(key) for key in want} == want


def test_59_a_rule_that_fails_the_job_names_container_and_code(api: Asker) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    api.have_job(job(podFailurePolicy={"rules": [rule]}, pod=runs("sh", "-c", "exit 42")))

    seen = ended(api)

    (pod,) = pods_of(api)
    want = (
        f"Container main for pod {api.namespace}/{pod['metadata']['name']} failed with exit code 42 "
        "matching FailJob rule at index 0"
    )
    assert conditions(seen)[-1] == ("Failed", "PodFailurePolicy")
    assert seen["status"]["conditions"][-1]["message"] == want


def test_34_and_42_each_index_runs_once_with_its_number(api: Asker) -> None:
    api.have_job(
        indexed(completions=5, parallelism=2, pod=runs("sh", "-c", "echo index $JOB_COMPLETION_INDEX"))
    )

    seen = ended(api)

    logs = {}
    for pod in pods_of(api):
        index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        assert pod["spec"]["hostname"] == f"j-{index}"
        logs[int(index)] = api.ask("GET", api.core("pods", pod["metadata"]["name"], "log")).body
    assert seen["status"]["completedIndexes"] == "0-4"
    assert logs == {index: f"index {index}\n" for index in range(5)}


def test_42_an_init_container_knows_its_index_too(api: Asker) -> None:
    first = {"name": "first", "image": "busybox:1.36", "command": ["sh", "-c", "echo $JOB_COMPLETION_INDEX"]}
    api.have_job(indexed(completions=2, parallelism=2, pod=runs(*SUCCEEDS, initContainers=[first])))

    ended(api)

    logs = {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: api.ask(
            "GET", api.core("pods", pod["metadata"]["name"], "log"), container="first"
        ).body
        for pod in pods_of(api)
    }
    assert logs == {"0": "0\n", "1": "1\n"}


def test_r1_a_job_can_be_told_what_is_done(api: Asker) -> None:
    api.have_job(indexed(completions=10, parallelism=10, suspend=True, pod=runs(*SUCCEEDS)))
    told = {"status": {"completedIndexes": "0-2,5-8"}}

    assert api.merge(api.jobs("j", "status"), told).code == 200
    assert api.merge(api.jobs("j"), {"spec": {"suspend": False}}).code == 200
    seen = ended(api)

    ran = {p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in pods_of(api)}
    assert ran == {"3", "4", "9"}
    assert (seen["status"]["completedIndexes"], seen["status"]["succeeded"]) == ("0-9", 10)


def test_r16_a_running_job_is_stopped_and_keeps_what_is_done(api: Asker) -> None:
    api.have_job(indexed(completions=4, parallelism=4, pod=by_index(_0="exit 0", _1="exit 0")))
    until(api, lambda seen: seen["status"].get("completedIndexes") == "0,1")

    api.merge(api.jobs("j"), {"spec": {"activeDeadlineSeconds": 0}})
    seen = ended(api)

    assert conditions(seen)[-1] == ("Failed", "DeadlineExceeded")
    assert seen["status"]["completedIndexes"] == "0,1"
    assert seen["status"]["failed"] == 2


def test_r16_a_suspended_job_is_stopped_when_it_is_resumed_in_the_same_patch(api: Asker) -> None:
    api.have_job(job(suspend=True, pod=runs(*LASTS)))
    until(api, lambda seen: ("Suspended", "JobSuspended") in conditions(seen))

    api.merge(api.jobs("j"), {"spec": {"activeDeadlineSeconds": 0, "suspend": False}})
    seen = ended(api)

    assert conditions(seen) == [
        ("Suspended", "JobSuspended"),
        ("FailureTarget", "DeadlineExceeded"),
        ("Failed", "DeadlineExceeded"),
    ]
    assert pods_of(api) == []


def test_51_a_pod_that_fits_nowhere_runs_into_the_deadline(api: Asker) -> None:
    api.have_job(job(activeDeadlineSeconds=3, pod=runs(*LASTS, nodeSelector={"kind": "none-such"})))

    def refused() -> Object | None:
        found = [c for pod in pods_of(api) for c in pod["status"].get("conditions") or ()]
        return next((c for c in found if c.get("reason") == "Unschedulable"), None)

    condition = api.eventually(refused)
    seen = ended(api)

    assert "didn't match Pod's node affinity/selector" in condition["message"]
    assert conditions(seen)[-1] == ("Failed", "DeadlineExceeded")


def test_60_an_evicted_pod_is_replaced_and_not_counted(api: Asker) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    api.have_job(indexed(completions=1, backoffLimitPerIndex=0, podFailurePolicy=policy, pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 1)
    (first,) = pods_of(api)
    name = first["metadata"]["name"]

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    assert api.ask("POST", api.core("pods", name, "eviction"), eviction).code == 201

    def replaced() -> Object | None:
        others = [pod for pod in pods_of(api) if pod["metadata"]["name"] != name]
        return others[0] if others else None

    second = api.eventually(replaced, seconds=30)
    annotations = second["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert annotations["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"
    assert "failed" not in api.ask("GET", api.jobs("j")).body["status"]


def test_44_failures_come_ten_seconds_apart_at_first(api: Asker) -> None:
    api.have_job(job(backoffLimit=1, pod=runs(*FAILS)))

    ended(api)

    first, second = sorted(pod["metadata"]["creationTimestamp"] for pod in pods_of(api))
    seconds = int(second[17:19]) - int(first[17:19])
    assert seconds % 60 in range(9, 15)
