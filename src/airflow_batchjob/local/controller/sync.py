"""One sync of one Job: what there is and the time in, what to do out. Pure.

The order of the decisions is that of Kubernetes 1.37's controller, and so is the order of writes
that a watcher sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_batchjob.local.controller import conditions
from airflow_batchjob.local.controller.conditions import Finish, Outcome
from airflow_batchjob.local.controller.decide import COMPLETIONS_REACHED, deadline_seconds, decide
from airflow_batchjob.local.controller.facts import PodFacts, format_time, parse_time
from airflow_batchjob.local.controller.look import Look, is_indexed, take_look
from airflow_batchjob.local.controller.manage import Management, manage
from airflow_batchjob.local.controller.model import Deletion, Event, Memory, Plan
from airflow_batchjob.local.controller.tracking import Tracking, track

Object = dict[str, Any]

CONTROLLER_NAME = "kubernetes.io/job-controller"


def sync(job: Object, pods: Sequence[PodFacts], memory: Memory, now: datetime) -> Plan:
    """Decide what to do about a Job now.

    Args:
        job: As stored, with its defaults filled in.
        pods: Its pods; those that have ended and are no longer tracked may be left out.
        memory: From the last plan for this Job, else ``Memory()``.
        now: The time, aware.
    """
    if job["spec"].get("managedBy") not in (None, CONTROLLER_NAME) or conditions.is_finished(job):
        return Plan()
    before = job.get("status") or {}
    look = take_look(_started(job, now), pods, memory, now)
    finish = decide(look)
    managed: Management | None = None
    delete: tuple[Deletion, ...] = ()
    if finish is not None:
        delete = tuple(Deletion(pod.name, untracked=False) for pod in look.active)
        active, ready = 0, 0
    else:
        if not job["metadata"].get("deletionTimestamp"):
            managed = manage(look)
            delete = tuple(Deletion(pod.name, untracked=True) for pod in managed.delete)
        active, ready = _left(look, managed)
        finish = _completed(look, active)
    status = _counted_status(look, active=active, ready=ready, deleted=len(delete))
    events: tuple[Event, ...] = ()
    if finish is None and managed is not None:
        status, events = _with_suspension(look, status)
    plan = _plan(look, finish, managed, status)
    return replace(
        plan,
        delete=delete,
        status=plan.status if _is_worth_a_write(look, before, plan.status) else None,
        events=(*events, *plan.events),
    )


def _is_worth_a_write(look: Look, before: Object, after: Object | None) -> bool:
    # Of indexes the count alone is no news: where another has written completedIndexes in the
    # controller's own words, the count follows with the next write.
    if not is_indexed(look.job) or after is None:
        return after != before
    return {**before, "succeeded": None} != {**after, "succeeded": None}


def _started(job: Object, now: datetime) -> Object:
    status = job.get("status") or {}
    if status.get("startTime") or job["spec"].get("suspend"):
        return job
    return {**job, "status": {**status, "startTime": format_time(now)}}


def _left(look: Look, managed: Management | None) -> tuple[int, int]:
    """Return how many pods are active and ready after what is to be done."""
    gone = {pod.uid for pod in managed.delete} if managed else set()
    staying = [pod for pod in look.active if pod.uid not in gone]
    created = len(managed.create) if managed else 0
    return len(staying) + created, sum(pod.ready for pod in staying)


def _completed(look: Look, active: int) -> Finish | None:
    completions = look.spec.get("completions")
    enough = look.succeeded_count > 0 if completions is None else look.succeeded_count >= completions
    return COMPLETIONS_REACHED if enough and not active else None


def _counted_status(look: Look, *, active: int, ready: int, deleted: int) -> Object:
    status = {
        **look.status,
        "active": active,
        "ready": ready,
        "terminating": len(look.terminating) + deleted,
    }
    if is_indexed(look.job):
        status["succeeded"] = look.succeeded_count
        status["completedIndexes"] = str(look.completed)
        if look.spec.get("backoffLimitPerIndex") is not None:
            status["failedIndexes"] = str(look.failed_indexes)
    return status


def _with_suspension(look: Look, status: Object) -> tuple[Object, tuple[Event, ...]]:
    """Keep the Suspended condition; a suspended Job has no start time, a resumed one starts anew."""
    was = status.get("conditions") or []
    now = conditions.with_suspension(was, look.suspended, look.now)
    if look.suspended:
        status = {key: value for key, value in status.items() if key != "startTime"}
    if now is was:
        return status, ()
    if look.suspended:
        return {**status, "conditions": now}, (Event("Suspended", "Job suspended"),)
    return (
        {**status, "conditions": now, "startTime": format_time(look.now)},
        (Event("Resumed", "Job resumed"),),
    )


def _plan(look: Look, finish: Finish | None, managed: Management | None, status: Object) -> Plan:
    tracked = track(look, finish)
    first = _tidy({**status, "uncountedTerminatedPods": _uncounted(tracked)})
    if finish is not None:
        kind = finish.outcome.announced_by
        first = {**first, "conditions": _add(first, kind, finish, look.now)}
    last = _counted(first, tracked)
    events: tuple[Event, ...] = ()
    if finish is not None and not tracked.more and not status["terminating"]:
        last = _ended(last, finish, look.now)
        events = (_final_event(finish),)
    return Plan(
        create=managed.create if managed else (),
        status=first,
        strip=tracked.strip,
        final_status=None if last == first else last,
        events=events,
        look_again_seconds=0.0 if tracked.more else None if finish else _look_again(look, managed, first),
        memory=replace(look.memory, completed=look.completed, failed=look.failed_indexes),
    )


def _look_again(look: Look, managed: Management | None, status: Object) -> float | None:
    started = status.get("startTime")
    deadline = None
    if started:
        deadline = deadline_seconds(replace(look, job={**look.job, "status": {"startTime": started}}))
    waits = [deadline, managed.look_again_seconds if managed else None]
    return min((max(0.0, wait) for wait in waits if wait is not None), default=None)


def _uncounted(tracked: Tracking) -> Object:
    lists = {"succeeded": list(tracked.succeeded), "failed": list(tracked.failed)}
    return {name: uids for name, uids in lists.items() if uids}


def _counted(status: Object, tracked: Tracking) -> Object:
    counted = {
        **status,
        "succeeded": (status.get("succeeded") or 0) + len(tracked.succeeded),
        "failed": (status.get("failed") or 0) + len(tracked.failed),
        "uncountedTerminatedPods": {},
    }
    return _tidy(counted)


def _ended(status: Object, finish: Finish, now: datetime) -> Object:
    ended = {**status, "conditions": _add(status, finish.outcome.value, finish, now)}
    if finish.outcome is Outcome.COMPLETE:
        # Never before the start: the API refuses that.
        started = status.get("startTime")
        ended["completionTime"] = format_time(max(now, parse_time(started)) if started else now)
    return ended


def _add(status: Object, kind: str, finish: Finish, now: datetime) -> list[Object]:
    return conditions.with_condition(status.get("conditions") or [], kind, finish, now)


def _final_event(finish: Finish) -> Event:
    if finish.outcome is Outcome.COMPLETE:
        return Event("Completed", "Job completed")
    return Event(finish.reason, finish.message, warning=True)


def _tidy(status: Object) -> Object:
    """Leave out what the API leaves out at zero; keep what it shows."""
    optional = ("active", "succeeded", "failed", "completedIndexes")
    return {key: value for key, value in status.items() if value or key not in optional}
