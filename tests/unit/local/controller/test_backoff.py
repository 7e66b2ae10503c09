"""How long failures hold back the next pod, and which failed pod an index goes on from."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_batchjob.local.controller.backoff import remaining_seconds, remember
from airflow_batchjob.local.controller.facts import PodFacts
from airflow_batchjob.local.controller.look import take_look
from airflow_batchjob.local.controller.model import Memory

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

A_POD = PodFacts(
    uid="u",
    name="p",
    phase="Failed",
    deleting=False,
    tracked=True,
    index=0,
    ready=False,
    restarts=0,
    failure_count=0,
    ignored_count=0,
    finished_at=NOW,
    exits=(),
    conditions=(),
    victim_order=(),
)

DELAYS = {
    "none": (0, 0, 0),
    "the first": (1, 0, 10),
    "the third": (3, 0, 40),
    "the sixth": (6, 0, 320),
    "the seventh is capped": (7, 0, 600),
    "a thousand are capped": (1000, 0, 600),
    "part has passed": (2, 15, 5),
    "all has passed": (2, 20, 0),
}


@pytest.mark.parametrize(("failures", "passed", "want"), DELAYS.values(), ids=DELAYS.keys())
def test_delay(failures: int, passed: float, want: float) -> None:
    assert remaining_seconds(failures, NOW, NOW + timedelta(seconds=passed)) == want


def pod(seconds: float, phase: str = "Failed") -> PodFacts:
    return replace(A_POD, phase=phase, finished_at=NOW + timedelta(seconds=seconds))


REMEMBERED = {
    "several failures at once each count": (3, [], [1, 2], (5, 2)),
    "a success forgets those before it": (3, [5], [1], (0, None)),
    "and one at the same time": (3, [5], [5], (0, None)),
    "but not those after it": (3, [5], [1, 6, 7], (2, 7)),
    "nothing new changes nothing": (3, [], [], (3, 0)),
}


@pytest.mark.parametrize(
    ("before", "successes", "failures", "want"), REMEMBERED.values(), ids=REMEMBERED.keys()
)
def test_memory(before: int, successes: list[int], failures: list[int], want: tuple[int, int | None]) -> None:
    memory = remember(
        Memory(failures=before, last_failure=NOW),
        [pod(at, "Succeeded") for at in successes],
        [pod(at) for at in failures],
    )

    last = None if memory.last_failure is None else int((memory.last_failure - NOW).total_seconds())
    assert (memory.failures, last) == want


@pytest.mark.parametrize("newest_first", [False, True])
def test_an_index_goes_on_from_its_latest_attempt(newest_first: bool) -> None:
    pods = [replace(A_POD, uid="old"), replace(A_POD, uid="new", failure_count=1)]
    spec = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "backoffLimitPerIndex": 3}

    look = take_look({"metadata": {}, "spec": spec}, pods[::-1] if newest_first else pods, Memory(), NOW)

    assert look.delayed[0].uid == "new"
