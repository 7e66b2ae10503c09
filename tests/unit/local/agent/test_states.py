"""The phase and conditions that containers add up to."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_batchjob.local.agent.states import (
    Running,
    State,
    Terminated,
    View,
    Waiting,
    phase,
    pod_status,
)

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def ended(code: int) -> Terminated:
    reason = "Error" if code else "Completed"
    return Terminated(exit_code=code, reason=reason, started_at=NOW, finished_at=NOW)


def view(state: State, last: Terminated | None = None, *, sidecar: bool = False) -> View:
    return View(name="c", image="i", state=state, last=last, sidecar=sidecar)


W, R, S, F = view(Waiting()), view(Running(NOW)), view(ended(0)), view(ended(1))
AGAIN = view(Waiting("CrashLoopBackOff"), ended(1))

PHASES: dict[str, tuple[str, list[View], list[View], str]] = {
    "nothing has started": ("Never", [], [W], "Pending"),
    "one of two has started": ("Never", [], [R, W], "Pending"),
    "all run": ("Never", [], [R, R], "Running"),
    "one has ended, one runs": ("Never", [], [S, R], "Running"),
    "one has failed, one runs": ("Never", [], [F, R], "Running"),
    "all have succeeded": ("Never", [], [S, S], "Succeeded"),
    "one of two has failed": ("Never", [], [S, F], "Failed"),
    "a failure that will be tried again": ("OnFailure", [], [F], "Running"),
    "waiting for the next try": ("OnFailure", [], [AGAIN], "Running"),
    "success at last": ("OnFailure", [], [S], "Succeeded"),
    "always again": ("Always", [], [S], "Running"),
    "an init container runs": ("Never", [R], [W], "Pending"),
    "an init container has failed": ("Never", [F], [W], "Failed"),
    "an init container will be tried again": ("OnFailure", [F], [W], "Pending"),
    "a sidecar runs, nothing else yet": ("Never", [view(Running(NOW), sidecar=True)], [W], "Pending"),
    "a sidecar's failure changes nothing": ("Never", [view(ended(1), sidecar=True)], [S], "Succeeded"),
}


@pytest.mark.parametrize(("policy", "inits", "mains", "want"), PHASES.values(), ids=PHASES.keys())
def test_phase(policy: str, inits: list[View], mains: list[View], want: str) -> None:
    assert phase(policy, tuple(inits), tuple(mains)) == want


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_conditions_of_others_stay() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "x"}

    status = pod_status({"conditions": [scheduled]}, (), (R,), "Running", NOW)

    assert scheduled in status["conditions"]
    assert conditions(status)["Ready"] == "True"


def test_a_completed_pod_is_not_ready_and_says_why() -> None:
    status = pod_status({}, (), (S,), "Succeeded", NOW)

    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_a_transition_keeps_its_time_until_the_next() -> None:
    running = pod_status({}, (), (R,), "Running", NOW)
    later = datetime(2026, 1, 2, tzinfo=timezone.utc)

    status = pod_status(running, (), (R,), "Running", later)

    assert status == running
