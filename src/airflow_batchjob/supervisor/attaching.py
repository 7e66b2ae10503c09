"""What is sent to make a Job this try's own: the new object, or one guarded patch of a living one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_batchjob.core.capacity.marks import CAPACITY, Why, read_capacity
from airflow_batchjob.core.capacity.spot_rules import on_demand_from_the_start, plan_of
from airflow_batchjob.core.capacity.way_out import is_last_of_several, last_try_words
from airflow_batchjob.core.deciding.clocks import to_send
from airflow_batchjob.core.identity.marks import DEADLINE, DIGESTS, HOLDER, LOGICAL_DATE, read_marks
from airflow_batchjob.core.identity.names import identify
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.supervisor.patches import (
    Operation,
    annotate,
    drop,
    drop_annotation,
    if_unchanged,
    put,
    send_deadline,
)
from airflow_batchjob.supervisor.request import Request

# What may be changed on a living Job. Kueue sets `parallelism` itself where a queue admits a part.
_MUTABLE = {
    "maxFailedIndexes": "max_failed_indexes",
    "backoffLimit": "backoff_limit",
    "ttlSecondsAfterFinished": "ttl_seconds_after_finished",
}


def created_manifest(
    request: Request, generation: int, *, namespace: str, digests: Mapping[str, str], now: float
) -> dict[str, Any]:
    """Return the object to create: named, marked, with the deadline of this try."""
    extras = {DIGESTS: json.dumps(dict(digests))}
    if request.logical_date:
        extras[LOGICAL_DATE] = request.logical_date
    sent = to_send(None, request, now)
    if sent is not None:
        extras[DEADLINE] = sent.mark.to_text()
    manifest = identify(
        _placed(request, now),
        request.identity,
        generation,
        holder=request.holder,
        incarnation=request.incarnation,
        extras=extras,
    )
    manifest["metadata"] = {**manifest["metadata"], "namespace": namespace}
    if sent is not None:
        manifest["spec"] = {**manifest["spec"], "activeDeadlineSeconds": sent.seconds}
    return manifest


def _placed(request: Request, now: float) -> Mapping[str, Any]:
    """Return the manifest, on demand from its start where this is the last of several tries."""
    plan = plan_of(request.manifest)
    last = is_last_of_several(request.try_number, request.max_tries)
    if plan is None or not plan.last_try_on_demand or not last:
        return request.manifest
    words = last_try_words(request.try_number)
    return on_demand_from_the_start(request.manifest, Why.LAST_TRY, words, now)


def _plan(job: Job, request: Request) -> list[Operation]:
    """Bring the limits of a living Job's capacity up to what is asked now; where it runs stays."""
    asked, there = plan_of(request.manifest), read_capacity(job).plan
    if asked is None or there is None:
        return []
    now = asked.moved() if there.now is not asked.now else asked
    return [] if now == there else [annotate(CAPACITY, now.to_text())]


def hold_operations(job: Job, request: Request) -> list[Operation]:
    """Return the patch that writes the holder, and nothing else."""
    return [*if_unchanged(job), annotate(HOLDER, request.holder)]


def attach_operations(job: Job, request: Request, *, now: float, plainly: bool) -> list[Operation]:
    """Return the patch that attaches to `job`: the holder, and what is asked now.

    Args:
        job: As read; the patch is void if anyone has written to it since, or else a stop that came
            in between would be undone.
        request: Of this try.
        now: Epoch seconds.
        plainly: Leave budgets, parallelism and TTL as they are: the API has refused them.
    """
    operations = [*hold_operations(job, request), *_deadline(job, request, now), *_plan(job, request)]
    return operations if plainly else operations + _limits(job, request)


def _deadline(job: Job, request: Request, now: float) -> list[Operation]:
    sent = to_send(job, request, now)
    if sent is not None:
        return send_deadline(sent)
    if read_marks(job).deadline is None:
        return []
    gone = [drop_annotation(DEADLINE)]
    return gone if job.spec.active_deadline_seconds is None else [*gone, drop("/spec/activeDeadlineSeconds")]


def _limits(job: Job, request: Request) -> list[Operation]:
    asked = request.manifest.get("spec") or {}
    wanted = {
        field: (asked.get(field), getattr(job.spec, attribute)) for field, attribute in _MUTABLE.items()
    }
    if not read_marks(job).queue:
        wanted["parallelism"] = (asked.get("parallelism"), job.spec.parallelism)
    operations = [
        put(f"/spec/{field}", value)
        for field, (value, there) in wanted.items()
        if value is not None and value != there
    ]
    if asked.get("maxFailedIndexes") is None and job.spec.max_failed_indexes is not None:
        operations.append(drop("/spec/maxFailedIndexes"))
    if request.ttl_left_out and job.spec.ttl_seconds_after_finished is not None:
        operations.append(drop("/spec/ttlSecondsAfterFinished"))
    return operations
