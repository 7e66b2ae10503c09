"""Active time and the wall clock, and what is sent for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.deciding.clocks import active_seconds, to_send, to_send_again
from airflow_batchjob.core.identity.marks import StandsFor
from airflow_batchjob.core.reading.job import Job
from tests.unit.core.made import NOW, condition, job, order, suspended

START = NOW - 1_000


def mark(**fields: Any) -> dict[str, Any]:
    return {"stands_for": "deadline_seconds", "seconds": 3_600, "holder": "ti/1", **fields}


ACTIVE: dict[str, tuple[Job, float]] = {
    "not started": (job(), 0),
    "started": (job(started_at=START), 1_000),
    "started under another try: that time is not ours": (
        job(started_at=START, deadline=mark(holder="ti/0")),
        0,
    ),
    "attached to 400 s ago": (job(started_at=START, deadline=mark(since=NOW - 400)), 400),
    "resumed, with time spent before": (job(started_at=NOW - 10, deadline=mark(spent_seconds=90.0)), 100),
    "suspended 300 s after its start": (job(*suspended(at=START + 300), started_at=START), 300),
    "suspended, and that time is written down": (
        job(
            *suspended(at=START + 300),
            started_at=START,
            deadline=mark(spent_seconds=300.0, since=START + 310),
        ),
        300,
    ),
    "suspended, and Kubernetes has cleared the start": (
        job(*suspended(at=START), deadline=mark(spent_seconds=300.0, since=START)),
        300,
    ),
    "resumed: the condition stays, False": (
        job(condition("Suspended", "JobResumed", status="False"), started_at=NOW - 10),
        10,
    ),
}


@pytest.mark.parametrize(("seen", "want"), ACTIVE.values(), ids=ACTIVE.keys())
def test_active_time_of_this_try(seen: Job, want: float) -> None:
    assert active_seconds(seen, "ti/1", NOW) == want


SENT: dict[str, tuple[Job | None, dict[str, Any], int, StandsFor]] = {
    "new Job": (None, {"deadline_seconds": 100}, 100, StandsFor.DEADLINE),
    "new Job, the wall clock ends first": (
        None,
        {"deadline_seconds": 100, "wall_clock_end": NOW + 50},
        50,
        StandsFor.EXECUTION_TIMEOUT,
    ),
    "Kubernetes counts from the start, so what has passed is added": (
        job(started_at=START, deadline=mark(holder="ti/0")),
        {"deadline_seconds": 100},
        1_100,
        StandsFor.DEADLINE,
    ),
    "what this try has spent is taken off": (
        job(started_at=START, deadline=mark(since=NOW - 40)),
        {"deadline_seconds": 100},
        1_060,
        StandsFor.DEADLINE,
    ),
    "suspended: Kubernetes will count from the resume": (
        job(*suspended(at=START + 30), started_at=START),
        {"deadline_seconds": 100},
        70,
        StandsFor.DEADLINE,
    ),
    "never 0, which would be a stop": (
        job(*suspended(at=START + 300), started_at=START),
        {"deadline_seconds": 100},
        1,
        StandsFor.DEADLINE,
    ),
}


@pytest.mark.parametrize(("seen", "limits", "want", "want_for"), SENT.values(), ids=SENT.keys())
def test_what_is_sent(seen: Job | None, limits: dict[str, Any], want: int, want_for: StandsFor) -> None:
    sent = to_send(seen, order(**limits), NOW)

    assert sent is not None
    assert (sent.seconds, sent.mark.seconds, sent.mark.stands_for) == (want, want, want_for)


def test_without_a_limit_nothing_is_sent() -> None:
    assert to_send(job(started_at=START), order(), NOW) is None


AGAIN: dict[str, tuple[Job, bool]] = {
    "running, as sent": (job(started_at=START, deadline=mark(since=START - 2)), False),
    "suspended since": (job(*suspended(at=NOW - 5), started_at=START, deadline=mark(since=START)), True),
    "suspended, and sent since": (
        job(*suspended(at=NOW - 5), started_at=START, deadline=mark(since=NOW - 4)),
        False,
    ),
    "suspended from the beginning": (job(*suspended(at=NOW - 5), deadline=mark(since=NOW - 6)), False),
    "started long after it was sent": (job(started_at=NOW - 5, deadline=mark(since=START)), True),
    "nothing was sent": (job(started_at=START), False),
}


@pytest.mark.parametrize(("seen", "want"), AGAIN.values(), ids=AGAIN.keys())
def test_it_is_sent_again_when_kubernetes_clock_has_stopped_or_started(seen: Job, want: bool) -> None:
    assert (to_send_again(seen, order(deadline_seconds=5_000), NOW) is not None) == want


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=1, max_size=6))
def test_however_often_it_is_suspended_active_time_is_the_sum_of_its_runs(
    runs: list[tuple[int, int]],
) -> None:
    """Each run lasts so many seconds, then it is suspended for so many; a look follows each change."""
    limits = order(deadline_seconds=1_000_000)
    now, known, seen = NOW, mark(since=NOW), job()
    for running, pausing in runs:
        start = now
        now += running
        seen = job(started_at=start, deadline=known)
        assert active_seconds(seen, "ti/1", now) == pytest.approx(known.get("spent_seconds", 0) + running)
        paused = job(*suspended(at=now), started_at=start, deadline=known)
        sent = to_send_again(paused, limits, now + 1)
        assert sent is not None
        known = json.loads(sent.mark.to_text())
        now += pausing + 1

    assert known["spent_seconds"] == pytest.approx(sum(running for running, _ in runs))
