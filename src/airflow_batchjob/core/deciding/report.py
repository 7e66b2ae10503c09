"""A verdict told: as what the task returns, as a small event, and as the error with its fixed words."""

from __future__ import annotations

from typing import Any

import msgspec
from typing_extensions import assert_never

from airflow_batchjob.core.deciding.verdict import LONGEST_LIST_BYTES
from airflow_batchjob.core.errors import (
    DeadlineError,
    FailJobRuleError,
    JobFailedError,
    OutcomeUnknownError,
    StockOutError,
    StoppedError,
    ThresholdNotMetError,
)
from airflow_batchjob.core.event import Cause, Order, Outcome, Verdict
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.wording import counted

LONGEST_LIST_IN_EVENT_BYTES = 2_000
_LONGEST_LIST_IN_TEXT_BYTES = 120
_NOT_DONE_LISTS = ("failed_indexes", "not_run_indexes")
_LISTS = ("succeeded_indexes", *_NOT_DONE_LISTS)

# What Kubernetes calls a stop of ours is always DeadlineExceeded.
_REASONS = {
    Cause.EXECUTION_TIMEOUT: "ExecutionTimeout",
    Cause.STOCK_OUT: "StockOut",
    Cause.LOSSES: "Losses",
    Cause.OVERCOMMITTED: "Overcommitted",
    Cause.STOPPED: "Stopped",
    Cause.VANISHED: "Vanished",
    Cause.TAKEN_OVER: "TakenOver",
}

_STOPPED_FOR = {
    Cause.STOCK_OUT: "No capacity came",
    Cause.LOSSES: "Machines were taken away too often",
    Cause.OVERCOMMITTED: "Overcommitted memory",
    Cause.STOPPED: "It was stopped",
}


def result_of(verdict: Verdict) -> dict[str, Any]:
    """Return what operator and sensor return: one flat dict of JSON values.

    `indexes_cut` is there, and True, only where a list was too long and is None.
    """
    verdict = _cut(verdict, LONGEST_LIST_BYTES)  # of a Job that vanished the lists came whole
    result: dict[str, Any] = {
        "job_name": verdict.job.name,
        "job_namespace": verdict.job.namespace,
        "job_uid": verdict.job.uid,
        "generation": verdict.generation,
        "verdict": verdict.outcome.value,
        "reason": _REASONS.get(verdict.cause, verdict.reason),
        "completions": verdict.completions,
        "succeeded": verdict.succeeded,
        "failed": verdict.failed,
        "not_run": verdict.not_run,
        "succeeded_indexes": verdict.succeeded_indexes,
        "failed_indexes": verdict.failed_indexes,
        "not_run_indexes": verdict.not_run_indexes,
        "losses": verdict.losses,
        "fell_back": verdict.fell_back,
        "cost": None,
    }
    if verdict.per_index is not None:
        result["per_index"] = verdict.per_index
    return result | {"indexes_cut": True} if verdict.indexes_cut else result


def for_event(verdict: Verdict) -> Verdict:
    """Return `verdict` small enough for a trigger's event: below 8 kB as JSON if it was met.

    Longer lists are left out: the worker reads them from the Job (`supervisor.conclude.whole`). Of a
    Job that vanished nothing can be read again, so its lists go whole. Of one that was not met, so does
    the list that a retry goes on from, up to what a record keeps: the Job may be gone before a worker comes.
    """
    if verdict.cause is Cause.VANISHED:
        return verdict
    lists = _LISTS if verdict.outcome is Outcome.MET else _NOT_DONE_LISTS
    return _cut(_cut(verdict, LONGEST_LIST_BYTES), LONGEST_LIST_IN_EVENT_BYTES, lists)


def _cut(verdict: Verdict, longest_bytes: int, names: tuple[str, ...] = _LISTS) -> Verdict:
    lists = {key: getattr(verdict, key) for key in names}
    too_long = {key: None for key, text in lists.items() if len(text or "") > longest_bytes}
    return msgspec.structs.replace(verdict, indexes_cut=True, **too_long) if too_long else verdict


def error_for(verdict: Verdict, order: Order) -> JobFailedError | None:
    """Return the error that ends the try; None where what was asked is met.

    Args:
        verdict: Concluded: with whole lists where they can be had, and the causes of failures.
        order: What was asked, and the counts of tries.
    """
    match verdict.outcome:
        case Outcome.MET:
            return None
        case Outcome.NOT_MET | Outcome.UNKNOWN | Outcome.NOT_OURS:
            kind = _error_class(verdict.cause)
            return kind(failure_text(verdict, order, may_retry=kind.retryable))
        case _ as never:
            assert_never(never)


def failure_text(verdict: Verdict, order: Order, *, may_retry: bool = True) -> str:
    """Return the one sentence after the other that a failed task's log ends with."""
    parts = [
        f"{verdict.job.name} (generation {verdict.generation}): {achieved_text(verdict)}.",
        _listed(verdict.failed, "failed", verdict.failed_indexes, verdict.causes),
        _listed(verdict.not_run, "not run", verdict.not_run_indexes, ""),
        _why(verdict, order),
        _next_try(verdict, order) if may_retry else "",
    ]
    return " ".join(filter(None, parts))


def achieved_text(verdict: Verdict) -> str:
    """Return how much was done of what was asked."""
    if verdict.completions is None:
        return f"{counted(verdict.succeeded, 'pod')} succeeded"
    if verdict.asked is not None:
        named = f"{verdict.asked_succeeded:,} of {verdict.asked:,} asked, of {verdict.completions:,}"
        return f"{named}; {verdict.succeeded:,} have succeeded in all"
    needed = f", {verdict.needed:,} needed" if verdict.needed is not None else ""
    return f"{verdict.succeeded:,} of {verdict.completions:,} succeeded{needed}"


def _listed(count: int, what: str, indexes: str | None, causes: str) -> str:
    if not count:
        return f"{causes}." if causes else ""
    if not indexes:
        return f"{count:,} {what}: {causes.removesuffix('.')}." if causes else f"{count:,} {what}."
    text, left_out = IndexSet.parse(indexes).cut(_LONGEST_LIST_IN_TEXT_BYTES)
    listed = f"{count:,} {what}: {text}"
    if not causes:
        return f"{listed},…." if left_out else f"{listed}."
    # Two numbers in a row ("0,1 2x exit 7") read as one list: the dots of a list that is cut part them, too.
    return f"{listed}{',…' if left_out else '.'} {causes.removesuffix('.')}."


def _why(verdict: Verdict, order: Order) -> str:
    said = verdict.message.strip().removesuffix(".")
    match verdict.cause:
        case Cause.COMPLETE | Cause.ENOUGH:
            return ""
        case Cause.TOO_FEW:
            # "Job has failed indexes" says nothing that is not said already.
            return "" if verdict.reason in {"FailedIndexes", "SuccessPolicy"} or not said else f"{said}."
        case Cause.FAIL_JOB_RULE:
            return f"A FailJob rule ended it: {said}. Trying again cannot help."
        case Cause.DEADLINE:
            limit = f"deadline_seconds={order.deadline_seconds}" if order.deadline_seconds else "Its deadline"
            return f"{limit} of active time has passed."
        case Cause.EXECUTION_TIMEOUT:
            return "Airflow's execution_timeout has passed."
        case Cause.STOCK_OUT | Cause.LOSSES | Cause.OVERCOMMITTED | Cause.STOPPED:
            return f"{_STOPPED_FOR[verdict.cause]}: {said}." if said else f"{_STOPPED_FOR[verdict.cause]}."
        case Cause.VANISHED:
            return (
                "The Job was deleted by someone else, or replaced, before its end could be read: "
                "the outcome is unknown and these counts are the last known ones."
            )
        case Cause.TAKEN_OVER:
            return f"Another try sees this Job through now ({said})."
        case _ as never:
            assert_never(never)


def _next_try(verdict: Verdict, order: Order) -> str:
    tries = order.max_tries + 1
    if tries == 1 or verdict.cause is Cause.TAKEN_OVER:
        return ""
    if order.is_last_try:
        return f"This was try {order.try_number} of {tries}."
    return f"Try {order.try_number + 1} of {tries} runs {_what_runs_next(verdict, order)}."


def _what_runs_next(verdict: Verdict, order: Order) -> str:
    completions = verdict.completions
    if completions is None or not order.indexed:
        return "everything again"
    known = verdict.succeeded_indexes is not None or verdict.indexes_cut
    is_kept = known and (verdict.cause is not Cause.VANISHED or order.remembers)
    if verdict.asked is not None:
        total, left = verdict.asked, verdict.asked - verdict.asked_succeeded
    else:
        total, left = completions, completions - verdict.succeeded
    if order.on_retry != "rest" or not is_kept or left == completions:
        return f"all {total:,} again"
    return "this one" if left == 1 else f"these {left:,}"


def _error_class(cause: Cause) -> type[JobFailedError]:
    match cause:
        case Cause.COMPLETE | Cause.ENOUGH | Cause.TOO_FEW | Cause.OVERCOMMITTED:
            return ThresholdNotMetError
        case Cause.FAIL_JOB_RULE:
            return FailJobRuleError
        case Cause.DEADLINE | Cause.EXECUTION_TIMEOUT:
            return DeadlineError
        case Cause.STOCK_OUT | Cause.LOSSES:
            return StockOutError
        case Cause.STOPPED:
            return StoppedError
        case Cause.VANISHED | Cause.TAKEN_OVER:
            return OutcomeUnknownError
        case _ as never:
            assert_never(never)
