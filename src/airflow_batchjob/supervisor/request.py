"""What one try asks for: a built manifest, what is to be reached, and for whom.

A request stays in the process that made it. What a supervisor elsewhere needs of it is an `Order`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_batchjob.core.event import OnFinish, Order
from airflow_batchjob.core.identity.digests import digests
from airflow_batchjob.core.identity.identity import Again, Asked
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.core.request.budget import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One try's request.

    Attributes:
        manifest: A batch/v1 Job as built by `core.manifest`, without name and marks of ours.
        thresholds: What is to be reached, in numbers.
        identity: Whose Job it is.
        holder: Who sees it through: task instance id and try.
        incarnation: Tells this run from a deleted one of the same name.
        namespace: Where Jobs go and are sought; None: the client's.
        try_number: Of the task instance, from 1.
        retries: As the task has it now.
        max_tries: As the task instance has it; differs from what was reported after a clear.
        on_retry: What a retry runs again.
        on_clear: What a user's clear runs again.
        wall_clock_end: Epoch seconds after which the try must end; None: never.
        on_finish: What becomes of the ended Job.
        ttl_seconds_after_finished: How long an ended Job stays, as asked or in the manifest before it
            was built (`Built.ttl_seconds_after_finished`); None: ours.
        ttl_left_out: None was asked for: ended Jobs stay for ever.
        logs: Whose logs to show: auto, all, failed, none or index ranges.
        log_containers: Whose logs to show; None: every container's.
        remembers: The task has a store that keeps what was done, should its Job vanish.
        logical_date: Of the DAG run, in ISO 8601; "": it has none.
        resume_key: Stands in for the digests of what decides an index's result; None: they are taken.
    """

    manifest: Mapping[str, Any]
    thresholds: Thresholds
    identity: TaskIdentity
    holder: str
    incarnation: str = ""
    namespace: str | None = None
    try_number: int = 1
    retries: int = 0
    max_tries: int = 0
    on_retry: Again = Again.REST
    on_clear: Again = Again.ALL
    wall_clock_end: float | None = None
    on_finish: OnFinish = OnFinish.KEEP
    ttl_seconds_after_finished: int | None = None
    ttl_left_out: bool = False
    logs: str = "auto"
    log_containers: tuple[str, ...] | None = None
    remembers: bool = False
    logical_date: str = ""
    resume_key: str | None = None

    @property
    def deadline_seconds(self) -> int | None:
        return self.thresholds.deadline_seconds

    @property
    def digests(self) -> dict[str, str]:
        """One short digest for each field that decides an index's result."""
        return digests(self.manifest, self.resume_key)

    def asked(self, digests_now: Mapping[str, str], *, waited: bool = False) -> Asked:
        """Return what decides between an earlier Job and a new one."""
        return Asked(
            completions=self.thresholds.completions,
            indexed=self.thresholds.indexed,
            min_succeeded=self.thresholds.min_succeeded,
            digests=digests_now,
            incarnation=self.incarnation,
            holder=self.holder,
            retries=self.retries,
            max_tries=self.max_tries,
            on_retry=self.on_retry,
            on_clear=self.on_clear,
            waited=waited,
        )

    def order(self, job: JobRef, generation: int) -> Order:
        """Return what a supervisor of `job` needs to know."""
        goal = self.thresholds
        return Order(
            job=job,
            identity=self.identity.digest,
            generation=generation,
            holder=self.holder,
            completions=goal.completions,
            indexed=goal.indexed,
            min_succeeded=goal.min_succeeded,
            stop_when_succeeded=goal.stop_when_succeeded,
            max_failed_indexes=goal.max_failed_indexes,
            deadline_seconds=goal.deadline_seconds,
            wall_clock_end=self.wall_clock_end,
            pending_seconds=goal.pending_seconds,
            on_finish=self.on_finish,
            ttl_seconds_after_finished=self.ttl_seconds_after_finished,
            ttl_left_out=self.ttl_left_out,
            try_number=self.try_number,
            retries=self.retries,
            max_tries=self.max_tries,
            logs=self.logs,
            log_containers=None if self.log_containers is None else list(self.log_containers),
            digests=self.digests,
            on_retry=self.on_retry.value,
            remembers=self.remembers,
        )
