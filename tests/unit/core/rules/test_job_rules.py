"""What Kubernetes refuses about a Job's own fields: the cases of its validator."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.rules.job_rules import job_problems, name_problems


def problems(**spec):
    """Return field and reason of each problem of an Indexed Job with these fields."""
    return {problem.field: problem.why for problem in job_problems({"spec": spec})}


def indexed(**spec):
    return problems(**{"completionMode": "Indexed", "completions": 3, "parallelism": 3, **spec})


def policy(*rules):
    template = {"spec": {"containers": [{"name": "work"}], "initContainers": [{"name": "prepare"}]}}
    return indexed(podFailurePolicy={"rules": list(rules)}, template=template)


def codes(**on_exit_codes):
    return policy({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], **on_exit_codes}})


RIGHT = {
    "nothing": {},
    "a work queue": {"parallelism": 3},
    "a plain Job": {"completions": 3, "parallelism": 9, "backoffLimit": 0},
    "neither count": {"completionMode": "Indexed"},
    "all budgets": {
        "completionMode": "Indexed",
        "completions": 3,
        "backoffLimit": 2**31 - 1,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 3,
    },
    "the most at once": {"completionMode": "Indexed", "completions": 100_000, "parallelism": 100_000},
    "very many, within the limits of many": {
        "completionMode": "Indexed",
        "completions": 100_001,
        "parallelism": 10_000,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 10_000,
    },
    "very many without a budget per index": {
        "completionMode": "Indexed",
        "completions": 1_000_000,
        "parallelism": 50_000,
    },
    "a deadline beyond int32": {"activeDeadlineSeconds": 2**40},
    "a manager": {"managedBy": "acme.io/queue"},
    "a mode that is not known yet": {"completionMode": "{{ mode }}x", "backoffLimitPerIndex": 1},
}


@pytest.mark.parametrize("spec", RIGHT.values(), ids=RIGHT.keys())
def test_what_kubernetes_takes_has_no_problem(spec) -> None:
    assert set(problems(**spec)) <= {"spec.completionMode"}
    assert "{{" in str(spec) or not problems(**spec)


WRONG = {
    "a negative count": (problems(parallelism=-1), "spec.parallelism"),
    "a count that is text": (problems(backoffLimit="many"), "spec.backoffLimit"),
    "a count above int32": (problems(ttlSecondsAfterFinished=2**31), "spec.ttlSecondsAfterFinished"),
    "an unknown mode": (problems(completionMode="indexed"), "spec.completionMode"),
    "an unknown replacement policy": (problems(podReplacementPolicy="Never"), "spec.podReplacementPolicy"),
    "indexed without completions": (
        problems(completionMode="Indexed", parallelism=2),
        "spec.completions",
    ),
    "too many at once": (indexed(completions=100_001, parallelism=100_001), "spec.parallelism"),
    "a fuse without a budget": (indexed(maxFailedIndexes=1), "spec.backoffLimitPerIndex"),
    "a fuse above the completions": (
        indexed(maxFailedIndexes=4, backoffLimitPerIndex=0),
        "spec.maxFailedIndexes",
    ),
    "a fuse above its limit": (
        indexed(completions=200_000, parallelism=1, maxFailedIndexes=100_001, backoffLimitPerIndex=0),
        "spec.maxFailedIndexes",
    ),
    "very many without a fuse": (
        indexed(completions=100_001, parallelism=10, backoffLimitPerIndex=1),
        "spec.maxFailedIndexes",
    ),
    "very many with a large fuse": (
        indexed(completions=100_001, parallelism=10, backoffLimitPerIndex=1, maxFailedIndexes=10_001),
        "spec.maxFailedIndexes",
    ),
    "too many at once of very many": (
        indexed(completions=100_001, parallelism=10_001, backoffLimitPerIndex=1, maxFailedIndexes=1),
        "spec.parallelism",
    ),
    "a budget per index without indexes": (problems(backoffLimitPerIndex=1), "spec.backoffLimitPerIndex"),
    "a fuse without indexes": (problems(maxFailedIndexes=1), "spec.maxFailedIndexes"),
    "a success policy without indexes": (
        problems(successPolicy={"rules": [{"succeededCount": 1}]}),
        "spec.successPolicy",
    ),
    "a manager without a domain": (problems(managedBy="queue"), "spec.managedBy"),
    "a rule without an action": (
        policy({"onPodConditions": [{"type": "DisruptionTarget"}]}),
        "spec.podFailurePolicy.rules[0].action",
    ),
    "an unknown action": (
        policy({"action": "Retry", "onPodConditions": [{"type": "DisruptionTarget"}]}),
        "spec.podFailurePolicy.rules[0].action",
    ),
    "FailIndex without a budget": (
        policy({"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget"}]}),
        "spec.podFailurePolicy.rules[0].action",
    ),
    "a rule that looks at nothing": (policy({"action": "Count"}), "spec.podFailurePolicy.rules[0]"),
    "a rule that looks at both": (
        policy(
            {
                "action": "Count",
                "onExitCodes": {"operator": "In", "values": [1]},
                "onPodConditions": [{"type": "X"}],
            }
        ),
        "spec.podFailurePolicy.rules[0]",
    ),
    "codes without an operator": (
        codes(operator=None),
        "spec.podFailurePolicy.rules[0].onExitCodes.operator",
    ),
    "an unknown operator": (codes(operator="Is"), "spec.podFailurePolicy.rules[0].onExitCodes.operator"),
    "no codes": (codes(values=[]), "spec.podFailurePolicy.rules[0].onExitCodes.values"),
    "codes out of order": (codes(values=[3, 1]), "spec.podFailurePolicy.rules[0].onExitCodes.values"),
    "a code twice": (codes(values=[1, 1]), "spec.podFailurePolicy.rules[0].onExitCodes.values"),
    "success as a failure": (codes(values=[0, 1]), "spec.podFailurePolicy.rules[0].onExitCodes.values"),
    "codes that are text": (codes(values=["1"]), "spec.podFailurePolicy.rules[0].onExitCodes.values"),
    "a container that is not there": (
        codes(containerName="main"),
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
    ),
    "a condition without a type": (
        policy({"action": "Ignore", "onPodConditions": [{"status": "True"}]}),
        "spec.podFailurePolicy.rules[0].onPodConditions[0].type",
    ),
    "a condition's status in small letters": (
        policy({"action": "Ignore", "onPodConditions": [{"type": "X", "status": "true"}]}),
        "spec.podFailurePolicy.rules[0].onPodConditions[0].status",
    ),
    "too many rules": (
        policy(*[{"action": "Ignore", "onPodConditions": [{"type": "X"}]}] * 21),
        "spec.podFailurePolicy.rules",
    ),
    "no success rules": (indexed(successPolicy={"rules": []}), "spec.successPolicy.rules"),
    "a success rule that says nothing": (
        indexed(successPolicy={"rules": [{}]}),
        "spec.successPolicy.rules[0]",
    ),
    "more successes than indexes": (
        indexed(successPolicy={"rules": [{"succeededCount": 4}]}),
        "spec.successPolicy.rules[0].succeededCount",
    ),
    "more successes than are listed": (
        indexed(successPolicy={"rules": [{"succeededCount": 2, "succeededIndexes": "1"}]}),
        "spec.successPolicy.rules[0].succeededCount",
    ),
    "an index that is not there": (
        indexed(successPolicy={"rules": [{"succeededIndexes": "0-9"}]}),
        "spec.successPolicy.rules[0].succeededIndexes",
    ),
}


@pytest.mark.parametrize(("found", "want"), WRONG.values(), ids=WRONG.keys())
def test_what_kubernetes_refuses_is_named(found, want) -> None:
    assert list(found) == [want]


def test_codes_of_an_init_container_and_of_all_containers_are_fine() -> None:
    assert codes(containerName="prepare") == codes(operator="NotIn", values=[0]) == {}


def test_a_policy_forbids_replacing_pods_that_still_terminate() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]

    found = indexed(podFailurePolicy={"rules": rules}, podReplacementPolicy="TerminatingOrFailed")

    assert list(found) == ["spec.podReplacementPolicy"]


NAMES = {
    "one index: 61 characters fit": (61, 1, True, False),
    "one index: 62 do not": (62, 1, True, True),
    "a hundred: 60 fit": (60, 100, True, False),
    "a thousand: 60 do not": (60, 1000, True, True),
    "a thousand: 59 fit": (59, 1000, True, False),
    "without indexes: 63 fit": (63, 1000, False, False),
    "without indexes: 64 do not": (64, None, False, True),
    "nothing to do: only the label's limit": (63, 0, True, False),
}


@pytest.mark.parametrize(("length", "completions", "is_indexed", "want"), NAMES.values(), ids=NAMES.keys())
def test_a_name_leaves_room_for_the_largest_index(length, completions, is_indexed, want) -> None:
    found = list(name_problems("name", "a" * length, completions=completions, indexed=is_indexed))

    assert bool(found) is want
