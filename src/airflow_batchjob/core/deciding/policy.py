"""What was seen, what was asked, and now → wait, fall back, stop or done.

A pure step: `decide` takes one look and what earlier looks left in `Memory`, and returns a decision
for `supervisor.supervise` to carry out. Every step may be the first after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.losses import Losses
from airflow_batchjob.core.capacity.marks import CapacityMarks, read_capacity
from airflow_batchjob.core.capacity.stock_out import Scheduling, shortage
from airflow_batchjob.core.capacity.stock_out import look as look_at_scheduling
from airflow_batchjob.core.capacity.way_out import FallBack, GiveUp, go_on, leave
from airflow_batchjob.core.deciding.clocks import (
    Sent,
    active_seconds,
    suspended_at,
    to_send,
    to_send_again,
    with_start,
)
from airflow_batchjob.core.deciding.verdict import judge, judge_vanished, taken_over
from airflow_batchjob.core.event import Cause, Order, Verdict
from airflow_batchjob.core.identity.marks import Marks, read_marks
from airflow_batchjob.core.identity.stopped import is_stopped, is_told_to_end
from airflow_batchjob.core.reading.diagnosis import diagnose
from airflow_batchjob.core.reading.failing import failing_notes, is_failing
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Lifecycle, Pod, lifecycle_of
from airflow_batchjob.core.reading.status import Phase, read_status
from airflow_batchjob.core.telling.notes import Held, Note, note_of, say
from airflow_batchjob.core.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a Job: None if it is gone; `pods` None where none were listed this time."""

    job: Job | None
    now: float  # epoch seconds
    pods: tuple[Pod, ...] | None = None
    events: tuple[Mapping[str, Any], ...] = ()  # of the Job and its pods, where they were asked for
    notes: tuple[Note, ...] = ()  # what the supervisor itself has to say, e.g. that nothing is heard
    losses: Losses | None = None  # None where none are counted, or they can't be


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one supervisor keeps between looks. Losing it costs a note said twice, never a verdict."""

    last: Job | None = None
    started: Job | None = None  # as it was when it last had a start; newer servers clear that on a pause
    held: Mapping[str, Held] = field(default_factory=lambda: MappingProxyType({}))
    scheduling: Scheduling = field(default_factory=Scheduling)
    pods: tuple[Pod, ...] = ()  # as listed last, as are the events
    events: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do but to say `notes`, to send `resend`, and to look again at `look_at` at the latest.

    `pods_at`: when a fresh list of pods decides something. Both are epoch seconds.
    """

    notes: tuple[Note, ...] = ()
    look_at: float = float("inf")
    pods_at: float = float("inf")
    resend: Sent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop the Job, and say why on it."""

    cause: Cause
    words: str


@dataclass(frozen=True, slots=True)
class Done:
    """It is over."""

    verdict: Verdict


Decision: TypeAlias = Wait | FallBack | Stop | Done


class _Seen(NamedTuple):
    job: Job
    timed: Job  # the same, with the start that its clock counts from
    look: Look
    order: Order
    memory: Memory


def decide(look: Look, order: Order, memory: Memory) -> tuple[Decision, Memory]:
    """Decide on one look.

    Args:
        look: What is seen now.
        order: What is asked, and for whom.
        memory: What the call before this one returned; at first `Memory()`.
    """
    job = look.job
    if job is None or job.metadata.uid != order.job.uid:
        return Done(judge_vanished(memory.last, order)), memory
    marks, phase = read_marks(job), read_status(job).phase
    capacity = read_capacity(job)
    memory = _remember(look, job, memory, _most_running(capacity))
    seen = _Seen(job, with_start(job, memory.started), look, order, memory)
    if marks.holder != order.holder:
        return Done(taken_over(job, order)), memory
    if capacity.is_followed_up and phase is not Phase.SUCCEEDED:
        return _move(seen, capacity)
    if phase.is_final:
        return Done(judge(job, order)), memory
    if _is_leaving(job, phase):
        return _wait(seen, _leaving_words(job, marks, order))
    if (stop := _stop_due(seen, marks)) is not None:
        return stop, memory
    if capacity.under_way is not None:
        return _move(seen, capacity)
    if phase is Phase.SUSPENDED or job.spec.suspend:
        return _wait(seen, _suspended_words(marks))
    return _while_active(seen, capacity, marks.queue)


def _stop_due(seen: _Seen, marks: Marks) -> Stop | None:
    order, now = seen.order, seen.look.now
    if marks.stop is not None and is_told_to_end(seen.job):  # suspended since then, so that it does not end
        return Stop(cause=marks.stop.cause, words=marks.stop.words)
    if order.wall_clock_end is not None and now >= order.wall_clock_end:
        return Stop(cause=Cause.EXECUTION_TIMEOUT, words="Airflow's execution_timeout has passed")
    limit = order.deadline_seconds
    if limit is not None and active_seconds(seen.timed, order.holder, now) >= limit:
        return Stop(cause=Cause.DEADLINE, words=f"deadline_seconds={limit} of active time has passed")
    return None


def wants_pods(job: Job) -> bool:
    """Tell whether a look at the pods of `job` can say more than the Job does.

    As long as all that are active are ready, none waits for a machine or an image.
    """
    return not read_status(job).phase.is_final and (_is_held_up(job) or is_failing(job))


def _is_held_up(job: Job) -> bool:
    return job.status.active > (job.status.ready or 0) or bool(job.status.terminating)


def wants_events(job: Job) -> bool:
    """Tell whether `job` should have pods and has none: then they may not be allowed to be created."""
    waiting = read_status(job).phase is Phase.PENDING and not job.spec.suspend
    return waiting and not job.status.terminating and job.spec.parallelism != 0


def longest_starting(pods: Sequence[Pod]) -> Pod | None:
    """Return the pod that has been on its node for longest without running: a volume may be missing."""
    starting = [pod for pod in pods if lifecycle_of(pod) is Lifecycle.STARTING]
    return min(starting, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.name), default=None)


def _while_active(seen: _Seen, capacity: CapacityMarks, queue: str) -> tuple[Decision, Memory]:
    look, order, memory = seen.look, seen.order, seen.memory
    most = _most_running(capacity)
    short = shortage(seen.job, memory.pods, memory.scheduling, order.pending_seconds, most)
    due_at = float("inf") if short is None else short.due_at
    # An older list may still show pods as waiting that have a machine by now.
    due = short if look.pods is not None and look.now >= due_at else None
    found = leave(seen.job, capacity, order, look.losses, due, queue=queue)
    if isinstance(found, FallBack):
        return replace(found, resend=to_send(seen.timed, order, look.now)), memory
    if isinstance(found, GiveUp):
        return Stop(cause=found.cause, words=found.words), memory
    if due is not None and found is None:
        return Stop(cause=Cause.STOCK_OUT, words=due.told(order.pending_seconds)), memory
    if due is not None:  # waited for already: only a change can decide more
        due_at = float("inf")
    return _wait(seen, () if found is None else (found,), due_at=due_at)


def _move(seen: _Seen, capacity: CapacityMarks) -> tuple[Decision, Memory]:
    """Go on with what someone has begun, be it this process or one that is no more."""
    if capacity.plan is None or capacity.under_way is None:
        words = "it is to leave spot, and where to is not written on it any more"
        return _wait(seen, (Note("way-out", words, warning=True),))
    found = go_on(seen.job, capacity.plan, capacity.under_way)
    if isinstance(found, Note):
        return _wait(seen, (found,))
    return replace(found, resend=to_send(seen.timed, seen.order, seen.look.now)), seen.memory


def _most_running(capacity: CapacityMarks) -> int:
    """Return how many running pods are no obstacle to a stock-out."""
    plan = capacity.plan
    leaves = plan is not None and plan.fallback and plan.now is Kind.SPOT
    return plan.max_running if plan is not None and leaves else 0


def _remember(look: Look, job: Job, memory: Memory, most_running: int) -> Memory:
    """Keep what this look shows; what an older list of pods showed goes as soon as it may be wrong."""
    if job.status.start_time is not None:
        memory = replace(memory, started=job)
    if job.spec.suspend or suspended_at(job) is not None:
        # After a resume all clocks on capacity start anew.
        return replace(memory, last=job, scheduling=Scheduling(), pods=look.pods or (), events=())
    scheduling = memory.scheduling
    if (job.status.ready or 0) > most_running:
        scheduling = replace(scheduling, running_at=look.now)
    if look.pods is not None:
        scheduling = look_at_scheduling(look.pods, scheduling, look.now, most_running)
        return replace(memory, last=job, scheduling=scheduling, pods=look.pods, events=look.events)
    pods, events = (memory.pods, memory.events) if _is_held_up(job) else ((), ())
    if not pods and is_failing(job):
        pods = tuple(pod for pod in memory.pods if pod.status.phase == "Failed")
    return replace(memory, last=job, scheduling=scheduling, pods=pods, events=look.events or events)


def _wait(seen: _Seen, notes: tuple[Note, ...], *, due_at: float = float("inf")) -> tuple[Decision, Memory]:
    job, timed, look, order, memory = seen
    at = datetime.fromtimestamp(look.now, tz=timezone.utc)
    diagnoses = map(note_of, diagnose(job, memory.pods, memory.events, now=at))
    saying = say((*look.notes, *notes, *failing_notes(job, memory.pods), *diagnoses), memory.held, look.now)
    ends = [saying.again_at, due_at]
    if order.wall_clock_end is not None:
        ends.append(order.wall_clock_end)
    if order.deadline_seconds is not None and suspended_at(job) is None and job.status.start_time:
        ends.append(look.now + order.deadline_seconds - active_seconds(timed, order.holder, look.now))
    # A clock that is over has led to a stop already, which needs no second look at once.
    look_at = min((end for end in ends if end > look.now), default=float("inf"))
    leaving = _is_leaving(job, read_status(job).phase)
    resend = None if leaving else to_send_again(timed, order, look.now)
    waiting = Wait(notes=saying.now, look_at=look_at, pods_at=due_at, resend=resend)
    return waiting, replace(memory, held=saying.held)


def _is_leaving(job: Job, phase: Phase) -> bool:
    return is_stopped(job) or phase is Phase.STOPPING or job.metadata.deletion_timestamp is not None


def _leaving_words(job: Job, marks: Marks, order: Order) -> tuple[Note, ...]:
    terminating = job.status.terminating or 0
    left = f"; {counted(terminating, 'pod is', 'pods are')} terminating" if terminating else ""
    if job.metadata.deletion_timestamp is not None and marks.stop is None:
        return (Note("deleting", f"Job {order.job} is being deleted by someone else{left}", warning=True),)
    status = read_status(job)
    why = marks.stop.words if marks.stop is not None else (status.message or status.reason)
    return (Note("ending", f"Job {order.job} is ending ({why}){left}"),)


def _suspended_words(marks: Marks) -> tuple[Note, ...]:
    if marks.queue:
        return (Note("suspended", f"suspended: the queue {marks.queue!r} has not admitted it"),)
    return (Note("suspended", "suspended, by its manifest or by someone: waiting until it is resumed"),)
