"""When a Job leaves spot, when it must wait, when there is no way out, and which step comes next."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.losses import Count, Losses
from airflow_batchjob.core.capacity.marks import (
    FALL_BACK,
    FOLLOW_UP,
    CapacityMarks,
    FellBack,
    Plan,
    UnderWay,
    Why,
    from_ranges,
    to_ranges,
)
from airflow_batchjob.core.capacity.stock_out import Shortage
from airflow_batchjob.core.capacity.way_out import FallBack, GiveUp, Step, go_on, leave
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.telling.notes import Note

SHORT = Shortage(unscheduled=3, since=0.0, words="0/3 nodes are available", due_at=0.0)
FALLS_BACK = Plan(now=Kind.SPOT, fallback=True, max_losses_per_index=3, last_try_on_demand=True)


def job(*, suspend: bool = False, conditions: Any = (), **status: Any) -> Job:
    plain = {
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"suspend": suspend},
        "status": {"conditions": list(conditions), **status},
    }
    return msgspec.convert(plain, Job)


def order(**fields: Any) -> Order:
    base = {"job": JobRef("n", "j", "u"), "identity": "i", "generation": 0, "holder": "h", "indexed": True}
    return Order(**{**base, "completions": 20, "pending_seconds": 900, **fields})


def plan(**fields: Any) -> Plan:
    return msgspec.structs.replace(FALLS_BACK, **fields)


def worst(losses: int, **more: Any) -> Losses:
    return Losses(**{"total": losses, "worst": Count(index=7, losses=losses), **more})


def pressed(losses: int) -> Losses:
    count = Count(index=2, losses=losses)
    return Losses(total=losses, pressed=count, pressed_words="The node was low on resource: memory.")


STAYS: dict[str, tuple[Plan, Order, Losses | None, Shortage | None]] = {
    "nothing has happened": (FALLS_BACK, order(), Losses(), None),
    "as many losses as are allowed": (FALLS_BACK, order(), worst(3), None),
    "no limit on losses": (plan(max_losses_per_index=None), order(), worst(40), None),
    "losses on on-demand machines": (plan(now=Kind.ON_DEMAND), order(), worst(40), None),
    "a rate that is allowed": (plan(max_loss_rate="1/5"), order(), worst(2, ended=8), None),
    "a rate over too few ends": (plan(max_loss_rate="1/5"), order(), worst(3, ended=6), None),
    "the only try": (FALLS_BACK, order(try_number=1, max_tries=0), Losses(), None),
    "the last try but one": (FALLS_BACK, order(try_number=2, max_tries=2), Losses(), None),
    "the last try, and that is no reason": (
        plan(last_try_on_demand=False), order(try_number=3, max_tries=2), Losses(), None,
    ),
    "as much pressure as is allowed": (FALLS_BACK, order(), pressed(3), None),
    "pods that can't be read": (FALLS_BACK, order(), None, None),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "asked", "losses", "short"), STAYS.values(), ids=STAYS.keys())
def test_it_stays(policy: Plan, asked: Order, losses: Losses | None, short: Shortage | None) -> None:
    assert leave(job(), CapacityMarks(plan=policy), asked, losses, short) is None


LEAVES: dict[str, tuple[Plan, Order, Losses | None, Shortage | None, Why, str]] = {
    "an index was lost too often": (
        FALLS_BACK, order(), worst(4), None, Why.LOSSES_OF_AN_INDEX,
        "index 7 lost 4 machines, 3 are allowed",
    ),
    "a single loss where none is allowed": (
        plan(max_losses_per_index=0), order(), worst(1), None, Why.LOSSES_OF_AN_INDEX,
        "lost 1 machine, 0 are allowed",
    ),
    "too large a part was lost": (
        plan(max_loss_rate="1/5"), order(), worst(3, ended=9), None, Why.LOSS_RATE, "3 of 12 pods",
    ),
    "no machine comes": (
        FALLS_BACK, order(), Losses(), SHORT, Why.STOCK_OUT,
        "3 pods without a machine for 900 s: 0/3 nodes are available",
    ),
    "no machine comes, and pods can't be read": (FALLS_BACK, order(), None, SHORT, Why.STOCK_OUT, "3 pods"),
    "the last of several tries": (
        FALLS_BACK, order(try_number=3, max_tries=2), Losses(), None, Why.LAST_TRY, "try 3 is the last one",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "asked", "losses", "short", "why", "words"), LEAVES.values(), ids=LEAVES.keys()
)
def test_it_leaves(
    policy: Plan, asked: Order, losses: Losses | None, short: Shortage | None, why: Why, words: str
) -> None:
    found = leave(job(), CapacityMarks(plan=policy), asked, losses, short)

    assert isinstance(found, FallBack)
    assert (found.step, found.why) == (Step.SUSPEND, why)
    assert words in found.words


@pytest.mark.parametrize("reason", LEAVES.values(), ids=LEAVES.keys())
def test_whatever_the_reason_healthy_pods_go_on(reason: Any) -> None:
    policy, asked, losses, short, _, words = reason
    if losses is not None:
        losses = Losses(**{name: getattr(losses, name) for name in Losses.__slots__} | {"running": 1})
    busy = job(active=1)

    found = leave(busy, CapacityMarks(plan=policy), asked, losses, short)
    allowed = leave(
        busy, CapacityMarks(plan=msgspec.structs.replace(policy, max_running=1)), asked, losses, short
    )

    assert isinstance(found, Note)
    assert words in found.text
    assert isinstance(allowed, FallBack)
    assert allowed.killed == 1


LAST = order(try_number=3, max_tries=2)
RUNNING: dict[str, tuple[Job, Losses | None, int]] = {
    "none of its pods has been seen yet": (job(active=4), Losses(running=None), 4),
    "what is seen is behind what the Job counts": (job(active=4, ready=3), Losses(running=1), 3),
    "what the Job counts is behind what is seen": (job(active=4, ready=1), Losses(running=3), 3),
    "pods can't be read": (job(active=4), None, 4),
    "all are seen, and none has a machine": (job(active=4), Losses(running=0), 0),
    "it has none": (job(), Losses(running=None), 0),
}


@pytest.mark.parametrize(("seen", "losses", "want"), RUNNING.values(), ids=RUNNING.keys())
def test_a_pod_that_may_be_running_is_not_killed(seen: Job, losses: Losses | None, want: int) -> None:
    waits = leave(seen, CapacityMarks(plan=plan(max_running=want - 1)), LAST, losses, None)
    moves = leave(seen, CapacityMarks(plan=plan(max_running=want)), LAST, losses, None)

    assert isinstance(waits, Note)
    assert isinstance(moves, FallBack)
    assert moves.killed == want


@pytest.mark.parametrize("reason", LEAVES.values(), ids=LEAVES.keys())
def test_a_job_of_a_queue_stays_and_says_so(reason: Any) -> None:
    policy, asked, losses, short, _, words = reason

    found = leave(job(), CapacityMarks(plan=policy), asked, losses, short, queue="batch")

    assert isinstance(found, Note)
    assert "queue's ('batch')" in found.text
    assert words in found.text


GIVES_UP = {
    "losses without a fallback": (plan(fallback=False), worst(4), None, Cause.LOSSES, "4 machines"),
    "a rate without a fallback": (
        plan(fallback=False, max_loss_rate="1/5"), worst(3, ended=9), None, Cause.LOSSES, "3 of 12",
    ),
    "no machine, no fallback": (plan(fallback=False), Losses(), SHORT, Cause.STOCK_OUT, "0/3 nodes"),
    "nodes that ran low, whatever the fallback": (
        FALLS_BACK, pressed(4), None, Cause.OVERCOMMITTED, "low on resource: memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "losses", "short", "cause", "words"), GIVES_UP.values(), ids=GIVES_UP.keys()
)
def test_it_gives_up(policy: Plan, losses: Losses, short: Shortage | None, cause: Cause, words: str) -> None:
    found = leave(job(), CapacityMarks(plan=policy), order(), losses, short)

    assert isinstance(found, GiveUp)
    assert found.cause is cause
    assert words in found.words


SUSPENDED = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
HALF = UnderWay(doing=FALL_BACK, why=Why.STOCK_OUT, words="w", killed=2)

STEPS = {
    "suspended, and Kubernetes has not said so yet": (job(suspend=True), FALLS_BACK, HALF, None),
    "a pod is still active": (job(suspend=True, conditions=[SUSPENDED], active=1), FALLS_BACK, HALF, None),
    "a pod is still terminating": (
        job(suspend=True, conditions=[SUSPENDED], terminating=1), FALLS_BACK, HALF, None,
    ),
    "at rest": (job(suspend=True, conditions=[SUSPENDED]), FALLS_BACK, HALF, Step.MOVE),
    "at rest, and it cannot be moved": (
        job(suspend=True, conditions=[SUSPENDED]), plan(in_place=False), HALF, Step.FOLLOW,
    ),
    "stopped in favour of a follow-up": (
        job(conditions=[{"type": "Failed", "status": "True"}]), FALLS_BACK,
        msgspec.structs.replace(HALF, doing=FOLLOW_UP), Step.FOLLOW,
    ),
    "resumed by someone": (job(), FALLS_BACK, HALF, Step.FORGET),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "policy", "under_way", "want"), STEPS.values(), ids=STEPS.keys())
def test_the_next_step_shows_on_the_job(
    seen: Job, policy: Plan, under_way: UnderWay, want: Step | None
) -> None:
    found = go_on(seen, policy, under_way)

    assert (found.step if isinstance(found, FallBack) else None) is want


def test_counts_are_written_as_ranges() -> None:
    counts = {0: 1, 1: 1, 2: 1, 7: 3, 9: 0}

    assert to_ranges(counts) == {"3": "7", "1": "0-2"}
    assert from_ranges(to_ranges(counts)) == {0: 1, 1: 1, 2: 1, 7: 3}
    assert from_ranges({"many": "1", "2": "5", "1": "0-2147483646", "9" * 5_000: "4"}) == {5: 2}


RATES = {
    "a part": ("1/5", Fraction(1, 5)),
    "nothing": ("0", Fraction(0)),
    "all": ("1", Fraction(1)),
    "no limit": (None, None),
    "a word": ("abc", None),
    "a part of nothing": ("1/0", None),
    "nothing of nothing": ("0/0", None),
    "more than all": ("3/2", None),
    "below nothing": ("-1/5", None),
    "a number that takes for ever": ("1e999999999", None),
    "more digits than Python reads": ("1" * 5_000, None),
}


@pytest.mark.parametrize(("text", "want"), RATES.values(), ids=RATES.keys())
def test_a_rate_that_makes_no_sense_is_no_limit(text: str | None, want: Fraction | None) -> None:
    written = plan(max_loss_rate=text)

    assert written.rate == want
    if want is None:
        assert leave(job(), CapacityMarks(plan=written), order(), Losses(total=3, ended=9), None) is None


def test_marks_survive_their_text() -> None:
    done = FellBack(why=Why.LAST_TRY, words="w", at=1.5, killed=3)

    assert msgspec.json.decode(done.to_text(), type=FellBack) == done
    assert Plan.from_text(FALLS_BACK.to_text()) == FALLS_BACK
    assert Plan.from_text("{") is None
