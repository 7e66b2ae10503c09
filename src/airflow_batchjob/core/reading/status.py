"""Where a Job stands: its conditions and counts as one frozen value.

Only conditions with the status "True" count, and the type of the condition alone decides;
reason and message are text. Counters never decide anything: they lag, and count killed pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from airflow_batchjob.core.identity.marks import ASSERTED
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Condition, Job, JobRef


class Phase(str, Enum):
    """Where a Job stands. Kubernetes has no such field; see `read_status`."""

    PENDING = "pending"  # accepted, no pod active yet
    SUSPENDED = "suspended"  # by its author, a user or a queue
    RUNNING = "running"
    STOPPING = "stopping"  # decided, pods still terminating
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in {Phase.SUCCEEDED, Phase.FAILED}


# First match wins. Final ones come first: a suspended Job that was stopped has both Failed and Suspended.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#terminal-job-conditions
_PHASE_OF_CONDITION = {
    "Failed": Phase.FAILED,
    "Complete": Phase.SUCCEEDED,
    "FailureTarget": Phase.STOPPING,
    "SuccessCriteriaMet": Phase.STOPPING,
    "Suspended": Phase.SUSPENDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One look at a Job.

    `succeeded` and `failed` count indexes that have run; what Kubernetes was only told to be completed is
    `asserted`. On a Job that is not indexed `succeeded` counts pods and
    `failed` is 0. `failed_pods` is Kubernetes' own counter: it includes killed pods and leaves out
    ignored ones, so it is for display alone.
    """

    job: JobRef
    phase: Phase
    reason: str = ""  # of the condition that decided the phase, e.g. "DeadlineExceeded"
    message: str = ""
    condition: str = ""  # its type, e.g. "FailureTarget"; "" where none decided
    indexed: bool = False
    completions: int | None = None
    parallelism: int | None = None
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    failed_pods: int = 0
    succeeded_indexes: IndexSet
    failed_indexes: IndexSet
    asserted_indexes: IndexSet = field(default_factory=IndexSet)
    suspend_asked: bool = False  # spec.suspend, which the condition follows
    being_deleted: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def remaining(self) -> int | None:
        """Completions that are still to be run; None on a work queue."""
        if self.completions is None:
            return None
        return self.completions - self.succeeded - self.failed - self.asserted_indexes.count


def read_status(job: Job) -> JobStatus:
    """Read where `job` stands; one that its controller has not seen yet is PENDING."""
    spec, status = job.spec, job.status
    indexed = spec.completion_mode == "Indexed"
    told = IndexSet.parse(status.completed_indexes if indexed else "", completions=spec.completions)
    asserted = IndexSet.parse(job.metadata.annotations.get(ASSERTED)) & told
    done = told - asserted
    lost = IndexSet.parse(status.failed_indexes if indexed else "", completions=spec.completions)
    phase, decided_by = _deciding_condition(job)
    return JobStatus(
        job=job.ref,
        phase=phase,
        reason=decided_by.reason if decided_by else "",
        message=decided_by.message if decided_by else "",
        condition=decided_by.type if decided_by else "",
        indexed=indexed,
        completions=spec.completions,
        parallelism=spec.parallelism,
        active=status.active,
        ready=status.ready or 0,
        terminating=status.terminating or 0,
        succeeded=len(done) if indexed else status.succeeded,
        failed=len(lost),
        failed_pods=status.failed,
        succeeded_indexes=done,
        failed_indexes=lost,
        asserted_indexes=asserted,
        suspend_asked=spec.suspend,
        being_deleted=job.metadata.deletion_timestamp is not None,
        started_at=status.start_time,
        ended_at=_ended_at(job, phase, decided_by),
    )


def phase_of(job: Job) -> Phase:
    """Return the phase alone: no list of indexes is read for it, however long."""
    return _deciding_condition(job)[0]


def _deciding_condition(job: Job) -> tuple[Phase, Condition | None]:
    # `status` is the *string* "True", "False" or "Unknown": all truthy.
    holding = {c.type: c for c in job.status.conditions if c.status == "True"}
    for kind, phase in _PHASE_OF_CONDITION.items():
        if kind in holding:
            return phase, holding[kind]
    return (Phase.RUNNING if job.status.active else Phase.PENDING), None


def _ended_at(job: Job, phase: Phase, decided_by: Condition | None) -> datetime | None:
    if not phase.is_final or decided_by is None:
        return None
    return job.status.completion_time or decided_by.last_transition_time
