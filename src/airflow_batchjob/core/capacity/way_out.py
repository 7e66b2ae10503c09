"""The way out of spot: when a Job leaves it, and which step comes next.

Every step is decided from the Job alone, so that whoever finds one half done goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.losses import Losses
from airflow_batchjob.core.capacity.marks import FOLLOW_UP, CapacityMarks, Plan, UnderWay, Why
from airflow_batchjob.core.capacity.stock_out import Shortage
from airflow_batchjob.core.deciding.clocks import Sent, suspended_at
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.telling.notes import Note
from airflow_batchjob.core.wording import counted

LEAST_ENDS_FOR_A_RATE = 10
"""Fewer pods that have ended say nothing about a rate."""


class Step(str, Enum):
    """What is done next, in one request or two."""

    SUSPEND = "suspend, and say what is under way"
    MOVE = "new placement and resume, in one request"
    FOLLOW = "a follow-up Job takes over"
    FORGET = "someone has resumed it meanwhile: begin anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBack:
    """Move the Job to on-demand machines: take this step.

    `resend` is the deadline that goes along, for suspended time does not count.
    """

    step: Step
    why: Why
    words: str
    killed: int = 0
    resend: Sent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """End the try: there is no way out, or it does not help."""

    cause: Cause
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a Job should leave spot, in words."""

    why: Why
    words: str


def leave(
    job: Job,
    marks: CapacityMarks,
    order: Order,
    losses: Losses | None,
    short: Shortage | None,
    *,
    queue: str = "",
) -> FallBack | GiveUp | Note | None:
    """Decide on an active Job.

    Args:
        job: As seen now.
        marks: Of its capacity.
        order: What is asked.
        losses: As counted; None where pods can't be watched.
        short: A shortage that has lasted for too long, on a fresh list of pods; None: there is none.
        queue: That manages the Job; placement is its business.

    Returns:
        What to do; a note: there is a reason, and it must wait; None: it stays.
    """
    plan = marks.plan
    if plan is None or plan.now is not Kind.SPOT:
        return None
    if losses is not None and (pressed := _pressed(plan, losses)):
        return GiveUp(cause=Cause.OVERCOMMITTED, words=pressed)
    reason = _reason(plan, order, losses, short)
    if reason is None:
        return None
    if queue:
        words = f"{reason.words}: placement is the queue's ({queue!r}), so the Job stays where it is"
        return Note("queue-places", words)
    if not plan.fallback:
        cause = Cause.STOCK_OUT if reason.why is Why.STOCK_OUT else Cause.LOSSES
        return GiveUp(cause=cause, words=reason.words)
    running = _running(job, losses)
    if running > plan.max_running:
        words = (
            f"{reason.words}: what is left moves to on-demand once no more than {plan.max_running:,} pods "
            "are running (fallback_max_running), which it would kill"
        )
        return Note("way-out", words)
    return FallBack(step=Step.SUSPEND, why=reason.why, words=reason.words, killed=running)


def go_on(job: Job, plan: Plan, under_way: UnderWay) -> FallBack | Note:
    """Decide on a Job that someone has begun to move; a note: wait."""
    why, words, killed = under_way.why, under_way.words, under_way.killed
    if under_way.doing == FOLLOW_UP:
        return FallBack(step=Step.FOLLOW, why=why, words=words, killed=killed)
    if not job.spec.suspend:
        return FallBack(step=Step.FORGET, why=why, words=words)
    left = job.status.active + (job.status.terminating or 0)
    if left or suspended_at(job) is None:
        return Note(
            "falling-back",
            f"suspended to move to on-demand: {counted(left, 'pod is', 'pods are')} still terminating",
            after_seconds=5.0,
        )
    step = Step.MOVE if plan.in_place else Step.FOLLOW
    return FallBack(step=step, why=why, words=words, killed=killed)


def last_try_words(order_try: int) -> str:
    """Say why a Job is on demand from its start."""
    return f"try {order_try} is the last one (last_try_on_demand)"


def is_last_of_several(try_number: int, max_tries: int) -> bool:
    """Tell whether this is the last try, and not the only one."""
    return try_number > 1 and max_tries < try_number


def _running(job: Job, losses: Losses | None) -> int:
    """Return how many pods may be running: what is seen of them may be behind what the Job counts."""
    if losses is None or losses.running is None:
        return job.status.active
    return max(losses.running, job.status.ready or 0)


def _reason(plan: Plan, order: Order, losses: Losses | None, short: Shortage | None) -> Reason | None:
    """Return the first reason that holds."""
    last = plan.last_try_on_demand and is_last_of_several(order.try_number, order.max_tries)
    if plan.fallback and last:
        return Reason(why=Why.LAST_TRY, words=last_try_words(order.try_number))
    if losses is not None:
        limit, worst = plan.max_losses_per_index, losses.worst
        if limit is not None and worst is not None and worst.losses > limit:
            machines = "machine" if worst.losses == 1 else "machines"
            words = f"index {worst.index:,} lost {worst.losses:,} {machines}, {_allowed(limit)}"
            return Reason(why=Why.LOSSES_OF_AN_INDEX, words=words)
        if words := _rate_words(plan, losses):
            return Reason(why=Why.LOSS_RATE, words=words)
    if short is not None:
        return Reason(why=Why.STOCK_OUT, words=short.told(order.pending_seconds))
    return None


def _allowed(limit: int) -> str:
    return f"{limit:,} {'is' if limit == 1 else 'are'} allowed"


def _rate_words(plan: Plan, losses: Losses) -> str:
    ends = losses.total + losses.ended
    if plan.rate is None or ends < LEAST_ENDS_FOR_A_RATE or losses.total <= plan.rate * ends:
        return ""
    return f"{losses.total:,} of {ends:,} pods ended by a loss, a part of {float(plan.rate):g} is allowed"


def _pressed(plan: Plan, losses: Losses) -> str:
    """Say that nodes ran low again and again: other machines of the same size would not help."""
    limit, pressed = plan.max_losses_per_index, losses.pressed
    if limit is None or pressed is None or pressed.losses <= limit:
        return ""
    said = f' ("{losses.pressed_words}")' if losses.pressed_words else ""
    return (
        f"index {pressed.index:,} was evicted {pressed.losses:,} times because its node ran low{said}, "
        f"{_allowed(limit)}. Request what the containers need, or let fewer share a machine"
    )
