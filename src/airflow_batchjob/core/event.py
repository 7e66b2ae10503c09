"""What crosses processes: the order a supervisor gets, and the verdict it gives.

Both are small values that survive JSON (`to_json_types`, `from_json_types`): no manifest, no
secret, index lists as range text. An `Order` is a trigger's argument, a `Verdict` its event.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
from typing_extensions import Self

from airflow_batchjob.core.reading.job import JobRef


class _Crossing(msgspec.Struct, frozen=True, kw_only=True):
    def to_json_types(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json_types(cls, plain: dict[str, Any]) -> Self:
        return msgspec.convert(plain, cls)


class OnFinish(str, Enum):
    """What becomes of an ended Job. Nothing of it ever touches a running one."""

    KEEP = "keep"
    DELETE = "delete"
    DELETE_WHEN_MET = "delete_when_met"


class Order(_Crossing, frozen=True, kw_only=True):
    """Which Job to see through to its end, for whom, and what is asked of it."""

    job: JobRef
    identity: str  # digest of (instance, dag, run, task, map index)
    generation: int
    holder: str  # who acts on the Job: task instance id and try; another holder ends this supervisor
    completions: int | None  # None: a work queue, or not indexed
    indexed: bool
    min_succeeded: int | None = None  # None: not given, so the Job's own end decides
    stop_when_succeeded: bool = False
    max_failed_indexes: int | None = None
    deadline_seconds: int | None = None  # active time, over all Jobs of this try
    wall_clock_end: float | None = None  # epoch seconds: Airflow's execution_timeout
    pending_seconds: int | None = None  # longest time without capacity
    on_finish: OnFinish = OnFinish.KEEP
    ttl_seconds_after_finished: int | None = None  # as asked or in the manifest; None: ours
    ttl_left_out: bool = False  # ttl_seconds_after_finished=None was asked for
    try_number: int = 1
    retries: int = 0
    max_tries: int = 0
    logs: str = "auto"  # auto, all, failed, none or index ranges
    log_containers: list[str] | None = None  # None: all
    digests: dict[str, str] = {}  # of what it runs, for the task's own record
    on_retry: str = "rest"  # what the next try runs: "rest" or "all"
    remembers: bool = False  # a store will say what was done, should the Job vanish

    @property
    def is_last_try(self) -> bool:
        return self.try_number > self.max_tries


class Outcome(str, Enum):
    MET = "met"
    NOT_MET = "not_met"
    UNKNOWN = "unknown"  # the Job vanished before its end was read
    NOT_OURS = "not_ours"  # another holder took over: no verdict, no report, no stop


class Cause(str, Enum):
    """Why the outcome is what it is. Decides which error is raised, and whether it is retried."""

    COMPLETE = "complete"  # condition Complete
    ENOUGH = "enough"  # failed or stopped, but min_succeeded is reached
    TOO_FEW = "too_few"  # failed indexes, the fuse, backoffLimit or a success policy below min_succeeded
    FAIL_JOB_RULE = "fail_job_rule"
    DEADLINE = "deadline"
    EXECUTION_TIMEOUT = "execution_timeout"
    STOCK_OUT = "stock_out"
    LOSSES = "losses"  # machines were taken away too often, and there is no way out
    OVERCOMMITTED = "overcommitted"  # nodes ran low on memory again and again
    STOPPED = "stopped"  # by a person
    VANISHED = "vanished"  # deleted by someone else
    TAKEN_OVER = "taken_over"


class Verdict(_Crossing, frozen=True, kw_only=True):
    """How a Job ended, judged once, by one rule, wherever the supervisor ran.

    Index lists are range text ("3,7-9"), whole up to a limit, beyond it None (`indexes_cut`).
    """

    outcome: Outcome
    cause: Cause
    job: JobRef
    generation: int
    reason: str = ""  # Kubernetes' word, e.g. "MaxFailedIndexesExceeded"
    message: str = ""  # Kubernetes' sentence
    completions: int | None = None
    needed: int | None = None
    succeeded: int = 0
    failed: int = 0
    not_run: int = 0
    succeeded_indexes: str | None = ""
    failed_indexes: str | None = ""
    not_run_indexes: str | None = ""
    indexes_cut: bool = False
    losses: int = 0  # pods lost with their machines, in this try
    fell_back: bool = False  # from spot to on-demand, in this try
    lost_seconds: float = 0.0  # for how long the lost pods had run
    per_index: dict[str, Any] | None = None  # see `core.attempts`; None: no capacity was asked for
    asked: int | None = None  # indexes that a person asked for; None: all
    asked_succeeded: int = 0
    causes: str = ""  # why indexes failed, in words; from their pods, once it is concluded
