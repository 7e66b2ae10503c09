"""What a task keeps in its own store of a Job, for the day when the Job is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from airflow_batchjob.compat import remember, remembered
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.record import Record, merged
from airflow_batchjob.supervisor.conclude import reported_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context


def keeper(context: Context, order: Order) -> Callable[[Verdict], None]:
    """Return what keeps a verdict in the task's own store, for the day when the Job is gone."""

    def keep(verdict: Verdict) -> None:
        if not order.remembers:
            return
        made = Record(
            name=verdict.job.name,
            uid=verdict.job.uid,
            generation=verdict.generation,
            digests=order.digests,
            verdict=msgspec.structs.replace(verdict, causes=""),
            reported=reported_mark(order, verdict),
            ended_at=time.time(),
        )
        remember(context, merged(made, stored_record(context)).to_text())

    return keep


def stored_record(context: Context) -> Record | None:
    """Return what an earlier try has kept."""
    text = remembered(context)
    return None if text is None else Record.from_text(text)
