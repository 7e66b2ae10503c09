"""podFailurePolicy rules against pods."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.local.controller.facts import read_pod
from airflow_batchjob.local.controller.failure_policy import Action, match_policy


def codes(operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    rule: dict[str, Any] = {"operator": operator, "values": list(values)}
    if container:
        rule["containerName"] = container
    return {"action": "FailIndex", "onExitCodes": rule}


def condition(kind: str, **more: str) -> dict[str, Any]:
    return {"action": "Ignore", "onPodConditions": [{"type": kind, **more}]}


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, int], dict[str, str], Action]] = {
    "no rule matches": ([codes("In", 42)], {"main": 1}, {}, Action.COUNT),
    "In": ([codes("In", 1, 42)], {"main": 42}, {}, Action.FAIL_INDEX),
    "NotIn": ([codes("NotIn", 1)], {"main": 2}, {}, Action.FAIL_INDEX),
    "NotIn is never met by success": ([codes("NotIn", 1)], {"main": 0, "side": 1}, {}, Action.COUNT),
    "NotIn is met by the one that failed": (
        [codes("NotIn", 1)],
        {"main": 0, "side": 2},
        {},
        Action.FAIL_INDEX,
    ),
    "another container's code": ([codes("In", 42, container="main")], {"side": 42}, {}, Action.COUNT),
    "a condition that holds": (
        [condition("DisruptionTarget")],
        {},
        {"DisruptionTarget": "True"},
        Action.IGNORE,
    ),
    "a condition that does not": (
        [condition("DisruptionTarget")],
        {},
        {"DisruptionTarget": "False"},
        Action.COUNT,
    ),
    "a condition asked to be false": (
        [condition("Ready", status="False")],
        {},
        {"Ready": "False"},
        Action.IGNORE,
    ),
    "order decides": (
        [condition("DisruptionTarget"), codes("In", 1)],
        {"main": 1},
        {"DisruptionTarget": "True"},
        Action.IGNORE,
    ),
    "Count ends the search": (
        [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}, codes("In", 1)],
        {"main": 1},
        {},
        Action.COUNT,
    ),
}


@pytest.mark.parametrize(("rules", "exits", "conditions", "want"), CASES.values(), ids=CASES.keys())
def test_action(
    rules: list[dict[str, Any]], exits: dict[str, int], conditions: dict[str, str], want: Action
) -> None:
    job = {"metadata": {"namespace": "ns"}, "spec": {"podFailurePolicy": {"rules": rules}}}
    pod = {
        "metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {
            "phase": "Failed",
            "conditions": [{"type": kind, "status": status} for kind, status in conditions.items()],
            "containerStatuses": [
                {
                    "name": name,
                    "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}},
                }
                for name, code in exits.items()
            ],
        },
    }

    assert match_policy(job, read_pod(pod)).action is want
