"""The marks that we leave on a Job, read back: whose it is, who holds it, why it was stopped.

The cluster is the record: whoever comes later, in whatever process, decides from these. Anyone may
have edited them, so text that can't be read counts as absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

import msgspec

from airflow_batchjob.core.event import Cause
from airflow_batchjob.core.reading.job import Job

PREFIX = "airflow-batchjob/"
IDENTITY = PREFIX + "identity"
GENERATION = PREFIX + "generation"
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "airflow-batchjob"
INCARNATION = PREFIX + "incarnation"
HOLDER = PREFIX + "holder"
DIGESTS = PREFIX + "digests"
STOP = PREFIX + "stop"
DEADLINE = PREFIX + "deadline"
REPORTED = PREFIX + "reported"
TTL = PREFIX + "ttl"
RESUMES = PREFIX + "resumes"
"""Of which Job a generation goes on, and which indexes a person asked for by name."""
ASSERTED = PREFIX + "asserted"
"""Indexes that count as completed for Kubernetes alone: nobody ran them, and nobody asked for them."""
RERUN = PREFIX + "rerun"
"""A person's request to run indexes of a Job that is over again."""
UNDER_WAY = PREFIX + "under-way"
"""What is being done with a Job, so that whoever finds it half done goes on."""

TASK = PREFIX + "task"
"""The exact ids, as JSON."""
LOGICAL_DATE = PREFIX + "logical-date"
"""Of the DAG run, where it has one: Airflow's command line finds runs by it."""

PREPARING = "preparing"
"""Under way: a new generation is being told what is done already. It runs nothing until then."""

SELECTOR = f"{MANAGED_BY}={OURS}"
"""Finds every Job of ours in a namespace."""

COMMAND_LINE = "command line"
"""Stands in for the Airflow of an identity that `batchjob run` has made up."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

MarkT = TypeVar("MarkT")


class StandsFor(str, Enum):
    """Which clock an `activeDeadlineSeconds` was sent for."""

    DEADLINE = "deadline_seconds"
    EXECUTION_TIMEOUT = "execution_timeout"


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    def to_text(self) -> str:
        """Return the annotation's value."""
        return msgspec.json.encode(self).decode()


class StopMark(_Mark, frozen=True, kw_only=True):
    """Why we stopped a Job, and when (`at`: epoch seconds on the clock of whoever stopped it)."""

    cause: Cause
    words: str = ""
    at: float = 0.0


class DeadlineMark(_Mark, frozen=True, kw_only=True):
    """What `activeDeadlineSeconds` stands for, and the active time of this try.

    Kubernetes counts from `startTime` and starts again at each resume; the try's own time is
    `spent_seconds` plus what has passed since `since` (or since `startTime`, if that is later).
    """

    stands_for: StandsFor
    seconds: int  # as sent
    holder: str  # whose time is counted: another try starts at 0
    spent_seconds: float = 0.0
    since: float = 0.0  # epoch seconds


class ReportedMark(_Mark, frozen=True, kw_only=True, rename={"try_number": "try"}):
    """What was told to Airflow, by which try, and the counts that tell a clear from a retry."""

    verdict: str
    try_number: int
    retries: int
    max_tries: int


class TryCounts(Protocol):
    """What tells a clear from a retry."""

    @property
    def retries(self) -> int: ...
    @property
    def max_tries(self) -> int: ...


def was_cleared(reported: ReportedMark, now: TryCounts) -> bool:
    """Tell a user's clear from a retry.

    Airflow sets `max_tries` to try + retries on a clear and leaves it alone on a retry. Where an
    edit of `retries` makes the sums agree, the retries themselves differ.
    """
    return (reported.max_tries, reported.retries) != (now.max_tries, now.retries)


class ResumesMark(_Mark, frozen=True, kw_only=True, omit_defaults=True):
    """Which Job a generation goes on from; `asked`: the indexes that were asked for, None: all the rest."""

    name: str
    uid: str
    asked: str | None = None
    words: str = ""  # of whoever asked, e.g. "failed"


class RerunMark(_Mark, frozen=True, kw_only=True, omit_defaults=True):
    """Which indexes a person wants run again: "failed", "rest", "all", or ranges; `at`: epoch seconds."""

    indexes: str
    by: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """All marks on one Job; empty where there is none."""

    identity: str = ""
    generation: int = 0
    managed_by: str = ""
    incarnation: str = ""
    holder: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    stop: StopMark | None = None
    deadline: DeadlineMark | None = None
    reported: ReportedMark | None = None
    queue: str = ""  # Kueue's queue; "" where none manages the Job
    resumes: ResumesMark | None = None
    asserted: str = ""
    rerun: RerunMark | None = None
    under_way: str = ""

    @property
    def is_preparing(self) -> bool:
        return self.under_way == PREPARING


def read_marks(job: Job) -> Marks:
    """Read the marks on `job`."""
    labels, annotations = job.metadata.labels, job.metadata.annotations
    generation = labels.get(GENERATION, "")
    return Marks(
        identity=labels.get(IDENTITY, ""),
        generation=int(generation) if generation.isascii() and generation.isdigit() else 0,
        managed_by=labels.get(MANAGED_BY, ""),
        incarnation=annotations.get(INCARNATION, ""),
        holder=annotations.get(HOLDER, ""),
        digests=_decoded(annotations, DIGESTS, dict[str, str]) or {},
        stop=_decoded(annotations, STOP, StopMark),
        deadline=_decoded(annotations, DEADLINE, DeadlineMark),
        reported=_decoded(annotations, REPORTED, ReportedMark),
        queue=labels.get(QUEUE_LABEL, ""),
        resumes=_decoded(annotations, RESUMES, ResumesMark),
        asserted=annotations.get(ASSERTED, ""),
        rerun=_decoded(annotations, RERUN, RerunMark),
        under_way=annotations.get(UNDER_WAY, ""),
    )


def identity_selector(identity: str) -> str:
    """Return the label selector of all Jobs of one identity."""
    return f"{IDENTITY}={identity}"


def _decoded(annotations: dict[str, str], key: str, kind: type[MarkT]) -> MarkT | None:
    text: Any = annotations.get(key)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None
