"""One look, one decision. How looks follow each other is the supervisor's test."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.core.deciding.policy import (
    Done,
    Look,
    Memory,
    Stop,
    Wait,
    decide,
    wants_events,
    wants_pods,
)
from airflow_batchjob.core.event import Cause, Order, Outcome
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from tests.unit import pods_made
from tests.unit.core.made import NOW, complete, condition, failed, job, order, suspended, unscheduled
from tests.unit.pods_made import container, exited

STARTED = NOW - 1_000
STOPPED = {"cause": "stopped", "words": "by hand", "at": NOW}
LATE = order(wall_clock_end=NOW - 1)
SHORT = order(deadline_seconds=900)
STARVED = (unscheduled(since=STARTED),)

CASES: dict[str, tuple[Job | None, Order, tuple[Pod, ...] | None, type | Cause | Outcome]] = {
    "gone": (None, order(), None, Outcome.UNKNOWN),
    "another of that name": (job(uid="uid-2"), order(), None, Outcome.UNKNOWN),
    "another holder": (job(holder="ti/2"), order(), None, Outcome.NOT_OURS),
    "another holder, and it has ended": (job(*complete(), holder="ti/2"), order(), None, Outcome.NOT_OURS),
    "another holder, and our time is up": (job(holder="ti/2"), LATE, None, Outcome.NOT_OURS),
    "ended well": (job(*complete(), completedIndexes="0-9"), order(), None, Outcome.MET),
    "ended well after our time was up": (job(*complete(), completedIndexes="0-9"), LATE, None, Outcome.MET),
    "ended badly": (job(*failed("FailedIndexes")), order(), None, Outcome.NOT_MET),
    "stopped while suspended": (
        job(*suspended(), *failed("DeadlineExceeded")),
        order(),
        None,
        Outcome.NOT_MET,
    ),
    "going on": (job(started_at=STARTED, active=1), order(), None, Wait),
    "ending by itself, and our time is up: no stop on top": (
        job(condition("FailureTarget", "FailedIndexes"), started_at=STARTED),
        LATE,
        None,
        Wait,
    ),
    "stopped already, and our time is up": (
        job(stop=STOPPED, spec={"activeDeadlineSeconds": 0}, active=1),
        LATE,
        None,
        Wait,
    ),
    "a stop that somebody took back does not count": (
        job(stop=STOPPED, spec={"activeDeadlineSeconds": 99_999}, active=1),
        LATE,
        None,
        Cause.EXECUTION_TIMEOUT,
    ),
    "stopped, and suspended again by a queue before it ended": (
        job(*suspended(), stop=STOPPED, spec={"activeDeadlineSeconds": 0, "suspend": True}, queue="gpu"),
        LATE,
        None,
        Cause.STOPPED,
    ),
    "being deleted, and our time is up": (job(deleted_at=NOW), LATE, None, Wait),
    "the wall clock": (job(started_at=STARTED), LATE, None, Cause.EXECUTION_TIMEOUT),
    "the wall clock, suspended": (job(*suspended()), LATE, None, Cause.EXECUTION_TIMEOUT),
    "both clocks: the wall clock counts": (
        job(started_at=STARTED),
        order(deadline_seconds=900, wall_clock_end=NOW - 1),
        None,
        Cause.EXECUTION_TIMEOUT,
    ),
    "active for too long": (job(started_at=STARTED), SHORT, None, Cause.DEADLINE),
    "suspended for long, active only shortly": (
        job(*suspended(at=STARTED + 10), started_at=STARTED),
        SHORT,
        None,
        Wait,
    ),
    "not started: its clock has not begun": (job(), SHORT, None, Wait),
    "no capacity": (job(started_at=STARTED, active=1), order(pending_seconds=900), STARVED, Cause.STOCK_OUT),
    "no capacity, suspended": (
        job(*suspended(), started_at=STARTED),
        order(pending_seconds=900),
        STARVED,
        Wait,
    ),
    "no capacity, and no limit": (job(started_at=STARTED, active=1), order(), STARVED, Wait),
    "pods were not listed this time": (
        job(started_at=STARTED, active=1),
        order(pending_seconds=900),
        None,
        Wait,
    ),
}


@pytest.mark.parametrize(("seen", "asked", "pods", "want"), CASES.values(), ids=CASES.keys())
def test_decision(
    seen: Job | None, asked: Order, pods: tuple[Pod, ...] | None, want: type | Cause | Outcome
) -> None:
    decision, _ = decide(Look(job=seen, now=NOW, pods=pods), asked, Memory())

    match decision:
        case Wait():
            assert want is Wait
        case Stop(cause=cause):
            assert cause is want
        case Done(verdict):
            assert verdict.outcome is want


def waited(seen: Job, asked: Order, **look: Any) -> Wait:
    decision, _ = decide(Look(job=seen, now=NOW, **look), asked, Memory())
    assert isinstance(decision, Wait)
    return decision


def test_it_looks_again_when_the_first_clock_ends() -> None:
    going_on = job(started_at=STARTED, active=1)

    assert waited(going_on, order(deadline_seconds=1_500, wall_clock_end=NOW + 700)).look_at == NOW + 500
    assert waited(going_on, order(deadline_seconds=1_500, wall_clock_end=NOW + 300)).look_at == NOW + 300
    assert waited(going_on, order()).look_at == float("inf")


def test_it_wants_pods_when_patience_ends() -> None:
    waiting = waited(
        job(started_at=NOW - 100, active=1), order(pending_seconds=900), pods=(unscheduled(since=NOW - 100),)
    )

    assert waiting.pods_at == NOW + 800


def test_pods_that_waited_in_an_older_list_are_no_stock_out() -> None:
    starved, asked = job(started_at=NOW - 100, active=1), order(pending_seconds=900)
    _, memory = decide(Look(job=starved, now=NOW, pods=(unscheduled(since=NOW - 100),)), asked, Memory())

    decision, _ = decide(Look(job=starved, now=NOW + 5_000), asked, memory)

    assert isinstance(decision, Wait)


def test_what_an_older_list_showed_goes_when_all_pods_are_ready() -> None:
    asked = order()
    waiting = Look(job=job(started_at=STARTED, active=1), now=NOW, pods=STARVED)
    _, memory = decide(waiting, asked, Memory())

    _, memory = decide(Look(job=job(started_at=STARTED, active=1, ready=1), now=NOW + 100), asked, memory)

    assert memory.pods == ()


def test_what_all_pods_fail_of_is_said_once_also_between_two_attempts() -> None:
    asked, pods = order(), (pods_made.pod(0, "Failed", container(terminated=exited(3))), unscheduled())
    replaced = job(started_at=STARTED, active=3, failed=1)
    first, memory = decide(Look(job=replaced, now=NOW, pods=pods), asked, Memory())
    pausing = job(started_at=STARTED, failed=1)
    second, memory = decide(Look(job=pausing, now=NOW + 20), asked, memory)

    assert isinstance(first, Wait)
    assert [note.text for note in first.notes if note.key == "failing"] == [
        "1 pod failed, none succeeded so far: 1x exit 3 in main"
    ]
    assert isinstance(second, Wait)
    assert second.notes == ()
    assert [pod.status.phase for pod in memory.pods] == ["Failed"]


def test_a_lost_pod_is_no_failure_of_the_program() -> None:
    lost = pods_made.pod(
        0,
        "Failed",
        container(terminated=exited(143)),
        conditions=[pods_made.condition("DisruptionTarget", reason="DeletionByPodGC")],
    )

    notes = waited(job(started_at=STARTED, active=3, failed=1), order(), pods=(lost,)).notes

    assert [note for note in notes if note.key == "failing"] == []


def test_a_queue_is_named_where_one_holds_the_job() -> None:
    held = waited(job(*suspended(), queue="gpu"), order())
    by_hand = waited(job(*suspended()), order())

    assert "'gpu'" in held.notes[0].text
    assert "resumed" in by_hand.notes[0].text


def test_a_job_that_somebody_deletes_is_said() -> None:
    note = waited(job(deleted_at=NOW), order()).notes[0]

    assert note.warning
    assert "being deleted by someone else" in note.text


def test_its_last_state_is_what_a_vanished_job_is_judged_by() -> None:
    _, memory = decide(Look(job=job(active=1, completedIndexes="0-4"), now=NOW), order(), Memory())

    decision, _ = decide(Look(job=None, now=NOW), order(), memory)

    assert isinstance(decision, Done)
    assert decision.verdict.succeeded == 5


PODS = {
    "none active": (job(), False),
    "all ready": (job(active=3, ready=3), False),
    "one not ready": (job(active=3, ready=2), True),
    "some terminate": (job(terminating=1), True),
    "some failed, and none succeeded": (job(active=3, ready=3, failed=1), True),
    "some failed, after others had succeeded": (job(active=3, ready=3, failed=1, succeeded=1), False),
    "ended": (job(*complete(), terminating=1), False),
}


@pytest.mark.parametrize(("seen", "want"), PODS.values(), ids=PODS.keys())
def test_pods_are_wanted_where_they_can_say_more_than_the_job(seen: Job, want: bool) -> None:
    assert wants_pods(seen) == want


EVENTS = {
    "no pod yet": (job(), True),
    "pods are there": (job(active=1), False),
    "suspended": (job(*suspended(), spec={"suspend": True}), False),
    "paused by parallelism 0": (job(spec={"parallelism": 0}), False),
    "ended": (job(*complete()), False),
}


@pytest.mark.parametrize(("seen", "want"), EVENTS.values(), ids=EVENTS.keys())
def test_events_are_wanted_where_pods_should_be_and_are_not(seen: Job, want: bool) -> None:
    assert wants_events(seen) == want
