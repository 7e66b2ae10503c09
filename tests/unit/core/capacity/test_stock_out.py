"""When waiting for a machine becomes a stock-out."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.capacity.stock_out import Scheduling, look, shortage
from airflow_batchjob.core.reading.pods import Pod
from tests.unit.core.made import NOW, job, pod, scheduled, unscheduled

STARTED = NOW - 10_000
LONG_AGO, PATIENCE = NOW - 5_000, 900

# The pods, what was seen before, and whether it is a stock-out now.
CASES: dict[str, tuple[list[Pod], Scheduling, bool]] = {
    "all wait, for long": ([unscheduled(since=LONG_AGO)], Scheduling(), True),
    "all wait, not for long": ([unscheduled(since=NOW - 899)], Scheduling(), False),
    "exactly so long": ([unscheduled(since=NOW - 900)], Scheduling(), True),
    "a pod runs": ([unscheduled(since=LONG_AGO), pod("busy", "Running")], Scheduling(), False),
    "another was scheduled a moment ago and starts": (
        [unscheduled(since=LONG_AGO), scheduled(at=NOW - 10)],
        Scheduling(),
        False,
    ),
    "another was scheduled long ago and has never started": (
        [unscheduled(since=LONG_AGO), scheduled(at=LONG_AGO)],
        Scheduling(),
        True,
    ),
    "one was scheduled in between, and is gone": (
        [unscheduled(since=LONG_AGO)],
        Scheduling(newly_scheduled_at=NOW - 100, unscheduled_since=LONG_AGO),
        False,
    ),
    "one has just ended: its machine is free for the next": (
        [unscheduled(since=LONG_AGO), scheduled(at=LONG_AGO, phase="Succeeded")],
        Scheduling(running_at=NOW - 5, unscheduled_since=LONG_AGO),
        False,
    ),
    "one has ended, and nobody got its machine": (
        [unscheduled(since=LONG_AGO), scheduled(at=LONG_AGO, phase="Succeeded")],
        Scheduling(running_at=NOW - 60, unscheduled_since=LONG_AGO),
        True,
    ),
    "one after the other: the next has only begun to wait": (
        [unscheduled(since=NOW - 100), scheduled(at=LONG_AGO, phase="Succeeded")],
        Scheduling(running_at=NOW - 101),
        False,
    ),
}


@pytest.mark.parametrize(("pods", "before", "want"), CASES.values(), ids=CASES.keys())
def test_stock_out(pods: list[Pod], before: Scheduling, want: bool) -> None:
    seen = look(pods, before, NOW)

    short = shortage(job(started_at=STARTED), pods, seen, PATIENCE)

    assert short is not None
    assert (short.due_at <= NOW) == want


def test_a_resume_starts_the_clock_anew() -> None:
    waiting = [unscheduled(since=LONG_AGO)]

    short = shortage(job(started_at=NOW - 100), waiting, look(waiting, Scheduling(), NOW), PATIENCE)

    assert short is not None
    assert short.due_at == NOW + 800


def test_without_a_limit_it_never_is_one() -> None:
    waiting = [unscheduled(since=LONG_AGO)]

    short = shortage(job(started_at=STARTED), waiting, look(waiting, Scheduling(), NOW), None)

    assert short is not None
    assert (short.due_at, short.words) == (float("inf"), "0/3 nodes are available")


def test_no_shortage_where_every_pod_has_a_machine() -> None:
    pods = [scheduled(), pod("busy", "Running", nodeName="node-1")]

    assert shortage(job(), pods, look(pods, Scheduling(), NOW), PATIENCE) is None
