"""podFailurePolicy: what a failed pod means for its Job. The first rule that matches decides."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from airflow_batchjob.local.controller.facts import PodFacts

Object = dict[str, Any]


class Action(str, Enum):
    """What a rule asks for; COUNT where no rule matches."""

    FAIL_JOB = "FailJob"
    FAIL_INDEX = "FailIndex"
    IGNORE = "Ignore"
    COUNT = "Count"


class Match(NamedTuple):
    """What the policy says about one pod."""

    action: Action
    message: str = ""
    """Why the Job fails; for FAIL_JOB only."""

    @property
    def counts(self) -> bool:
        """Whether the failure enters ``status.failed``."""
        return self.action is not Action.IGNORE


_COUNTED = Match(Action.COUNT)


def match_policy(job: Object, pod: PodFacts) -> Match:
    """Return what the Job's policy says of a pod that counts as failed."""
    policy = job["spec"].get("podFailurePolicy")
    if not policy or pod.phase != "Failed":
        return _COUNTED
    namespace = job["metadata"].get("namespace") or ""
    for number, rule in enumerate(policy.get("rules") or ()):
        reason = _match(rule, pod, namespace)
        if reason is None:
            continue
        action = Action(rule["action"])
        if action is Action.FAIL_JOB:
            return Match(action, f"{reason} matching FailJob rule at index {number}")
        return Match(action)
    return _COUNTED


def _match(rule: Object, pod: PodFacts, namespace: str) -> str | None:
    """Return how the pod meets the rule, in the controller's words; None where it does not."""
    if codes := rule.get("onExitCodes"):
        wanted, values = codes.get("containerName"), codes.get("values") or ()
        inside = codes["operator"] == "In"
        for container, code in pod.exits:
            if (wanted is None or wanted == container) and (code in values) == inside:
                return f"Container {container} for pod {namespace}/{pod.name} failed with exit code {code}"
    for pattern in rule.get("onPodConditions") or ():
        if (pattern["type"], pattern.get("status") or "True") in pod.conditions:
            return f"Pod {namespace}/{pod.name} has condition {pattern['type']}"
    return None
