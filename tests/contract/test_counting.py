"""What counts against which budget, and when what is replaced: the cases that take their time.

All of a table's Jobs are created at once, and all stories told at once: each waits for delays of ten seconds
and more, and so they wait together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import pytest

from tests.contract.asking import Asker, Object, indexed, job
from tests.contract.living import (
    FAILS,
    LASTS,
    SUCCEEDS,
    UNTIL_TERM,
    by_index,
    conditions,
    ended,
    evict,
    has_begun,
    index_of,
    is_leaving,
    is_over,
    none_left,
    pods_of,
    ready,
    runs,
    until,
)

SLOW_SECONDS = 100.0
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def created(pod: Object) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00")).timestamp()


def story(pods: list[Object]) -> list[tuple[int | None, str | None]]:
    """Return index and failure count of each pod, in the order in which they were made."""
    return [(index_of(pod), pod["metadata"].get("annotations", {}).get(FAILURES)) for pod in pods]


def starts(pods: list[Object], index: int) -> list[float]:
    return [created(pod) for pod in pods if index_of(pod) == index]


Check = Callable[[Object, list[Object]], None]


def check_44(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Failed", "BackoffLimitExceeded")
    assert over["status"]["failed"] == 3
    first, second, third = (created(pod) for pod in pods)
    assert 10 <= second - first <= 17
    assert 20 <= third - second <= 27


def check_47(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Failed", "BackoffLimitExceeded")
    assert pods == []
    assert over["status"]["failed"] == 1


def check_53(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Failed", "FailedIndexes")
    assert sorted(story(pods)) == [(0, "0"), (0, "1"), (1, "0")]
    assert (over["status"]["failedIndexes"], over["status"]["completedIndexes"]) == ("0", "1")
    assert over["status"]["failed"] == 2
    first, second = starts(pods, 0)
    assert 10 <= second - first <= 17


def check_54(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Complete", "CompletionsReached")
    assert story(pods) == [(0, "0"), (0, "1")]
    assert (over["status"]["failed"], over["status"]["succeeded"]) == (1, 1)
    assert (over["status"]["failedIndexes"], over["status"]["completedIndexes"]) == ("", "0")


def check_56(over: Object, pods: list[Object]) -> None:
    assert story(pods) == [(0, "0"), (0, "1"), (1, "0"), (2, "0")]
    assert created(pods[1]) - created(pods[0]) >= 10


def check_57(over: Object, pods: list[Object]) -> None:
    assert sorted(story(pods)) == [(0, "0"), (0, "1"), (1, "0"), (2, "0")]
    assert starts(pods, 2)[0] <= starts(pods, 0)[1]
    assert starts(pods, 0)[1] - starts(pods, 0)[0] >= 10


def check_58(over: Object, pods: list[Object]) -> None:
    assert [index for index, _ in story(pods)] == [0, 0]
    assert conditions(over)[-1] == ("Failed", "BackoffLimitExceeded")


def check_63(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Failed", "PodFailurePolicy")
    assert over["status"]["conditions"][-1]["message"].startswith("Container second for pod ")


def check_36(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Complete", "CompletionsReached")
    assert len(pods) == 3
    assert over["status"]["succeeded"] == 3


def check_41(over: Object, pods: list[Object]) -> None:
    """Not as described: pods killed by the verdict may count as failed, where it took one sync more."""
    assert conditions(over) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
    assert over["status"]["conditions"][-1]["message"] == "Matched rules at index 0"
    assert over["status"]["completedIndexes"] == "0,3,7"
    assert over["status"]["succeeded"] == 3


def check_count(over: Object, pods: list[Object]) -> None:
    assert conditions(over)[-1] == ("Failed", "PodFailurePolicy")
    assert over["status"]["failed"] == 2


def check_fail_index_beside_a_budget(over: Object, pods: list[Object]) -> None:
    assert sorted(story(pods)) == [(0, "0"), (1, "0"), (1, "1")]
    assert over["status"]["failedIndexes"] == "0,1"


SECOND_TRY = runs("sh", "-c", "[ $FAILURES = 1 ]")
SECOND_TRY["containers"][0]["env"] = [
    {"name": "FAILURES", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{FAILURES}']"}}}
]
TWO_CONTAINERS = {
    "terminationGracePeriodSeconds": 1,
    "containers": [
        {"name": "first", "image": "busybox:1.36", "command": ["true"]},
        {"name": "second", "image": "busybox:1.36", "command": ["sh", "-c", "exit 2"]},
    ],
}


def rules(*some: tuple[str, str, list[int]]) -> Object:
    return {
        "rules": [
            {"action": action, "onExitCodes": {"operator": operator, "values": values}}
            for action, operator, values in some
        ]
    }


CASES: dict[str, tuple[Object, Check]] = {
    "36 two at once of three": (job("c36", completions=3, parallelism=2, pod=runs(*SUCCEEDS)), check_36),
    "44 failures come ten, then twenty seconds apart": (
        job("c44", backoffLimit=2, pod=runs(*FAILS)),
        check_44,
    ),
    "47 a restart in place reaches the budget, and its pod goes": (
        job("c47", backoffLimit=1, pod=runs("sh", "-c", "sleep 1; exit 1", restartPolicy="OnFailure")),
        check_47,
    ),
    "53 a budget of one for each index: two pods": (
        indexed(
            "c53", completions=2, parallelism=2, backoffLimitPerIndex=1, pod=by_index("exit 0", _0="exit 1")
        ),
        check_53,
    ),
    "54 a budget of one for each index, and a second try that succeeds": (
        indexed("c54", completions=1, backoffLimitPerIndex=1, pod=SECOND_TRY),
        check_54,
    ),
    "56 one at a time: an index that waits holds up those after it": (
        indexed(
            "c56", completions=3, parallelism=1, backoffLimitPerIndex=1, pod=by_index("exit 0", _0="exit 1")
        ),
        check_56,
    ),
    "57 two at a time: an index that waits takes one place": (
        indexed(
            "c57", completions=3, parallelism=2, backoffLimitPerIndex=1, pod=by_index("exit 0", _0="exit 1")
        ),
        check_57,
    ),
    "58 without a budget for each index all wait": (
        indexed("c58", completions=3, parallelism=1, backoffLimit=1, pod=by_index("exit 0", _0="exit 1")),
        check_58,
    ),
    "63 an exit code of zero never matches": (
        job("c63", podFailurePolicy=rules(("FailJob", "NotIn", [1])), pod=TWO_CONTAINERS),
        check_63,
    ),
    "41 a success policy of two among five": (
        indexed(
            "c41",
            completions=10,
            parallelism=10,
            successPolicy={"rules": [{"succeededIndexes": "0-4", "succeededCount": 2}]},
            pod=by_index(_0="exit 0", _7="exit 0", _3="sleep 4"),
        ),
        check_41,
    ),
    "a rule that counts is as no rule, and the next one is not asked": (
        indexed(
            "count",
            completions=2,
            parallelism=2,
            podFailurePolicy=rules(("Count", "In", [1]), ("FailJob", "In", [1, 2])),
            pod=by_index(_0="exit 1", _1="sleep 4; exit 2"),
        ),
        check_count,
    ),
    "61 a rule fails one index at once, another uses up its budget": (
        indexed(
            "c61",
            completions=2,
            parallelism=2,
            backoffLimitPerIndex=1,
            podFailurePolicy=rules(("FailIndex", "In", [42])),
            pod=by_index(_0="exit 42", _1="exit 1"),
        ),
        check_fail_index_beside_a_budget,
    ),
}


def test_35_no_more_pods_than_completions(api: Asker) -> None:
    api.have_job(job(completions=2, parallelism=10, pod=runs(*LASTS)))

    until(api, ready(2))

    assert len(pods_of(api)) == 2


def test_34_the_lowest_indexes_that_are_left_come_next(api: Asker) -> None:
    api.have_job(indexed(completions=5, parallelism=2, pod=by_index(_0="exit 0", _1="exit 0")))

    until(api, lambda seen: seen["status"].get("completedIndexes") == "0,1" and ready(2)(seen))

    assert {index_of(pod) for pod in pods_of(api)} == {0, 1, 2, 3}


def test_38_no_parallelism_no_pods_no_verdict(api: Asker) -> None:
    api.have_job(job(parallelism=0, completions=1, pod=runs(*SUCCEEDS)))
    api.have_job(job("other", pod=runs(*SUCCEEDS)))

    ended(api, "other")
    seen = api.ask("GET", api.jobs("j")).body

    assert seen["status"]["startTime"]
    assert (conditions(seen), pods_of(api)) == ([], [])


# Fails after a while of itself; deleted before that it succeeds, where only failed pods are replaced.
OBEDIENT = (
    "trap 'exit 0' TERM; echo up; n=0; while [ $n -lt {tenths} ]; do sleep 0.1; n=$((n + 1)); done; exit 1"
)


def succeeds_now(api: Asker, pod: Object) -> None:
    has_begun(api, pod)
    api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))


def newest(api: Asker, count: int) -> Object:
    """Return the last pod, once there have been so many; those that go are not counted."""
    pods: list[Object] = api.eventually(
        lambda: (pods := pods_of(api)) and len(pods) >= count and pods, seconds=SLOW_SECONDS
    )
    return pods[-1]


def story_39(api: Asker) -> None:
    pod = runs("sh", "-c", OBEDIENT.format(tenths=150))
    api.have_job(job(parallelism=3, podReplacementPolicy="Failed", pod=pod))
    until(api, ready(3))

    succeeds_now(api, pods_of(api)[0])
    over = ended(api, seconds=SLOW_SECONDS)

    assert conditions(over)[-1] == ("Complete", "CompletionsReached")
    assert (over["status"]["succeeded"], over["status"]["failed"]) == (1, 2)
    assert "completions" not in over["spec"]


def story_46(api: Asker) -> None:
    pod = runs("sh", "-c", OBEDIENT.format(tenths=40))
    api.have_job(job(completions=2, parallelism=1, backoffLimit=9, podReplacementPolicy="Failed", pod=pod))

    succeeds_now(api, newest(api, 2))  # the first has failed
    until(api, lambda seen: seen["status"].get("succeeded") == 1)
    failed_twice = until(api, lambda seen: seen["status"].get("failed") == 2, seconds=SLOW_SECONDS)
    at = max(finished(other) for other in pods_of(api) if other["status"]["phase"] == "Failed")
    last = api.eventually(
        lambda: next((p for p in pods_of(api) if created(p) > at), None), seconds=SLOW_SECONDS
    )

    assert not is_over(failed_twice)
    assert 9 <= created(last) - at <= 17


def finished(pod: Object) -> float:
    at = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def story_54(api: Asker) -> None:
    api.have_job(indexed(completions=1, backoffLimitPerIndex=1, pod=runs(*LASTS)))
    until(api, ready(1))
    [pod] = pods_of(api)

    api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))
    until(
        api,
        lambda seen: len([p for p in pods_of(api) if p["metadata"]["uid"] != pod["metadata"]["uid"]]) == 1,
    )
    [again] = [other for other in pods_of(api) if other["metadata"]["uid"] != pod["metadata"]["uid"]]

    assert again["metadata"]["annotations"][FAILURES] == "1"
    seen = until(api, lambda seen: seen["status"].get("failed") == 1)
    assert seen["status"]["failedIndexes"] == ""
    assert not is_over(seen)


def story_62(api: Asker) -> None:
    policy = {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}},
        ]
    }
    api.have_job(job(backoffLimit=0, podFailurePolicy=policy, pod=runs(*LASTS)))
    until(api, ready(1))
    [pod] = pods_of(api)

    evict(api, pod)
    api.eventually(
        lambda: [other for other in pods_of(api) if other["metadata"]["uid"] != pod["metadata"]["uid"]],
        seconds=40,
    )

    seen = api.ask("GET", api.jobs("j")).body
    assert "failed" not in seen["status"]
    assert conditions(seen) == []


def story_64(api: Asker) -> None:
    slowly = "trap 'sleep 25; exit 143' TERM; echo up; while :; do sleep 0.1; done"
    api.have_job(job(pod=runs("sh", "-c", slowly) | {"terminationGracePeriodSeconds": 40}))
    until(api, ready(1))
    [old] = pods_of(api)
    has_begun(api, old)

    api.ask("DELETE", api.core("pods", old["metadata"]["name"]))
    counted = until(api, lambda seen: seen["status"].get("failed") == 1)
    pods = api.eventually(lambda: len(found := pods_of(api)) == 2 and found, seconds=20)

    assert counted["status"]["terminating"] == 1
    assert sorted(map(is_leaving, pods)) == [False, True]


def test_65_a_leaving_pod_keeps_its_place_where_only_failed_ones_are_replaced(api: Asker) -> None:
    leaves_slowly = "trap 'sleep 4; exit 143' TERM; echo up; while :; do sleep 0.1; done"
    pod = runs("sh", "-c", leaves_slowly) | {"terminationGracePeriodSeconds": 10}
    api.have_job(job(podReplacementPolicy="Failed", pod=pod))
    until(api, ready(1))
    [pod] = pods_of(api)
    api.eventually(lambda: api.ask("GET", api.core("pods", pod["metadata"]["name"], "log")).body == "up\n")

    api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))
    leaving = until(api, lambda seen: seen["status"].get("terminating") == 1)
    pods = pods_of(api)
    after = until(api, lambda seen: seen["status"].get("failed") == 1)

    assert "failed" not in leaving["status"]
    assert leaving["status"].get("active") is None
    assert [is_leaving(other) for other in pods] == [True]
    assert after["status"]["terminating"] == 0


def test_73_a_smaller_elastic_job_forgets_what_lies_beyond(api: Asker) -> None:
    api.have_job(indexed(completions=4, parallelism=4, pod=by_index(UNTIL_TERM, _0="exit 0", _3="exit 0")))
    until(api, lambda seen: seen["status"].get("completedIndexes") == "0,3" and ready(2)(seen))

    api.merge(api.jobs("j"), {"spec": {"completions": 3, "parallelism": 3}})
    seen = until(api, lambda seen: seen["status"].get("completedIndexes") == "0")

    assert seen["status"]["succeeded"] == 1


def test_a_pause_by_parallelism_is_no_condition_and_counts_nothing(api: Asker) -> None:
    api.have_job(job(completions=2, parallelism=2, pod=runs(*LASTS)))
    until(api, ready(2))

    api.merge(api.jobs("j"), {"spec": {"parallelism": 0}})
    paused = until(api, none_left)
    api.merge(api.jobs("j"), {"spec": {"parallelism": 2}})
    again = until(api, ready(2))

    for seen in (paused, again):
        assert "failed" not in seen["status"]
        assert conditions(seen) == []


STORIES: dict[str, Callable[[Asker], None]] = {
    "39 a work queue ends with its last pod, whatever that does": story_39,
    "46 a success shortens the next delay": story_46,
    "54 a second try after a failure is annotated": story_54,
    "64 a deleted pod counts at once, and is replaced while it leaves": story_64,
    "62 of two rules that match the first decides": story_62,
}


@pytest.fixture(scope="module", autouse=True)
def together(server: Asker) -> Iterator[Asker]:
    """A namespace in which all Jobs of the table run, from the module's first test on."""
    with server.in_a_new_namespace() as api:
        for sent, _ in CASES.values():
            api.have_job(sent)
        yield api


@pytest.fixture(scope="module", autouse=True)
def told(server: Asker) -> Iterator[dict[str, Future[None]]]:
    """The stories, told at the same time, each in its namespace."""

    def tell(story: Callable[[Asker], None]) -> None:
        with server.in_a_new_namespace() as api:
            story(api)

    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(tell, story) for name, story in STORIES.items()}


@pytest.mark.parametrize("case", CASES)
def test_budgets_and_delays(together: Asker, case: str) -> None:
    sent, check = CASES[case]
    name = sent["metadata"]["name"]

    over = ended(together, name, seconds=SLOW_SECONDS)

    check(over, pods_of(together, name))


@pytest.mark.parametrize("story", STORIES)
def test_stories(told: dict[str, Future[None]], story: str) -> None:
    told[story].result(SLOW_SECONDS)


def test_a_condition_that_does_not_hold_decides_nothing(api: Asker) -> None:
    api.have_job(job(suspend=True, backoffLimit=0, pod=runs(*SUCCEEDS)))
    time = "2024-01-01T00:00:00Z"
    condition = {
        "type": "FailureTarget",
        "status": "False",
        "lastProbeTime": time,
        "lastTransitionTime": time,
    }
    told = api.merge(api.jobs("j", "status"), {"status": {"conditions": [condition]}})
    assert told.code == 200, told.body
    api.merge(api.jobs("j"), {"spec": {"suspend": False}})

    assert conditions(ended(api))[-1] == ("Complete", "CompletionsReached")


def test_a_rule_on_a_condition_asks_for_its_status(api: Asker) -> None:
    # A pod that has ended is not Ready, in so many words: the condition is there, and "False".
    rules = [
        {"action": "FailJob", "onPodConditions": [{"type": "Ready", "status": "True"}]},
        {"action": "FailIndex", "onPodConditions": [{"type": "Ready", "status": "False"}]},
    ]
    api.have_job(
        indexed(completions=1, backoffLimitPerIndex=3, podFailurePolicy={"rules": rules}, pod=runs(*FAILS))
    )

    assert conditions(ended(api))[-1] == ("Failed", "FailedIndexes")
