"""A verdict told: the result's keys, the error's class and its fixed words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_batchjob.core import errors
from airflow_batchjob.core.deciding.report import error_for, result_of
from airflow_batchjob.core.event import Cause, Outcome, Verdict
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import JobRef
from tests.unit.core.made import order


def verdict(**fields: Any) -> Verdict:
    return Verdict(
        **{
            "outcome": Outcome.NOT_MET,
            "cause": Cause.TOO_FEW,
            "job": JobRef("batch", "embed-3f2a", "uid-1"),
            "generation": 1,
            "reason": "FailedIndexes",
            "message": "Job has failed indexes",
            "completions": 2000,
            "needed": 1980,
            "succeeded": 1978,
            "failed": 22,
            "failed_indexes": "3,7-9,20-37",
            **fields,
        }
    )


def told(given: Verdict, **tries: Any) -> str:
    error = error_for(given, order(**{"try_number": 1, "max_tries": 2, **tries}))
    assert error is not None
    return str(error)


def test_the_failure_text_has_its_fixed_form() -> None:
    causes = "18x exit 1 in main (\"KeyError: 'id'\"), 4x OOMKilled at 93 GiB"

    assert told(verdict(causes=causes)) == (
        "embed-3f2a (generation 1): 1,978 of 2,000 succeeded, 1,980 needed. 22 failed: 3,7-9,20-37. "
        "18x exit 1 in main (\"KeyError: 'id'\"), 4x OOMKilled at 93 GiB. Try 2 of 3 runs these 22."
    )


def test_a_long_list_is_cut_with_an_ellipsis() -> None:
    scattered = str(IndexSet.of(range(0, 2000, 2)))

    text = told(verdict(failed=1000, failed_indexes=scattered))

    assert "1,000 failed: 0,2,4," in text
    assert ",…." in text
    assert len(text) < 400
    assert ",… 9x exit 1 in main." in told(
        verdict(failed=1000, failed_indexes=scattered, causes="9x exit 1 in main")
    )


TEXTS: dict[str, tuple[Verdict, str]] = {
    "the fuse says so": (
        verdict(reason="MaxFailedIndexesExceeded", message="Job has exceeded the maximal number"),
        "Job has exceeded the maximal number.",
    ),
    "indexes that never ran": (
        verdict(failed=0, not_run=22, not_run_indexes="1978-1999"),
        "22 not run: 1978-1999.",
    ),
    "no capacity, in the scheduler's words": (
        verdict(cause=Cause.STOCK_OUT, message="14 pods without a machine for 900 s: 0/3 nodes"),
        "No capacity came: 14 pods without a machine for 900 s: 0/3 nodes.",
    ),
    "a stop": (verdict(cause=Cause.STOPPED, message="not needed"), "It was stopped: not needed."),
    "the deadline": (verdict(cause=Cause.DEADLINE), "deadline_seconds=60 of active time has passed."),
    "the execution timeout": (
        verdict(cause=Cause.EXECUTION_TIMEOUT),
        "Airflow's execution_timeout has passed.",
    ),
    "gone": (verdict(cause=Cause.VANISHED, outcome=Outcome.UNKNOWN), "the outcome is unknown"),
    "a list too long to be told": (verdict(failed_indexes=None), "22 failed."),
    "no completions": (verdict(completions=None, needed=None, succeeded=3), "3 pods succeeded."),
}


@pytest.mark.parametrize(("given", "want"), TEXTS.values(), ids=TEXTS.keys())
def test_the_text_says(given: Verdict, want: str) -> None:
    assert want in told(given, deadline_seconds=60)


TRIES = {
    "a try is left": (verdict(), 1, 2, "Try 2 of 3 runs these 22."),
    "one is left": (
        verdict(succeeded=1_999, failed=1, failed_indexes="3"),
        1,
        2,
        "Try 2 of 3 runs this one.",
    ),
    "nothing was done": (verdict(succeeded=0), 1, 2, "Try 2 of 3 runs all 2,000 again."),
    "indexes were asked for": (verdict(asked=30, asked_succeeded=26), 1, 2, "Try 2 of 3 runs these 4."),
    "it vanished, and no store remembers": (
        verdict(cause=Cause.VANISHED, outcome=Outcome.UNKNOWN),
        1,
        2,
        "Try 2 of 3 runs all 2,000 again.",
    ),
    "none is left": (verdict(), 3, 2, "This was try 3 of 3."),
    "a rule that retries can't help": (
        verdict(cause=Cause.FAIL_JOB_RULE, message="Rule 0"),
        1,
        2,
        "cannot help.",
    ),
    "a stop is not retried": (
        verdict(cause=Cause.STOPPED, message="enough"),
        1,
        2,
        "It was stopped: enough.",
    ),
    "there are no tries on the command line": (verdict(), 1, 0, "22 failed: 3,7-9,20-37."),
}


@pytest.mark.parametrize(("given", "number", "most", "want"), TRIES.values(), ids=TRIES.keys())
def test_the_text_ends_with_what_comes_next(given: Verdict, number: int, most: int, want: str) -> None:
    assert told(given, try_number=number, max_tries=most).endswith(want)


OTHER_ORDERS = {
    "on_retry=all": (verdict(), {"on_retry": "all"}, "Try 2 of 3 runs all 2,000 again."),
    "it vanished, and a store remembers": (
        verdict(cause=Cause.VANISHED, outcome=Outcome.UNKNOWN),
        {"remembers": True},
        "Try 2 of 3 runs these 22.",
    ),
    "its list is too long to be told, and the Job says it": (
        verdict(succeeded_indexes=None, indexes_cut=True),
        {},
        "Try 2 of 3 runs these 22.",
    ),
    "nobody knows any more what was done": (
        verdict(succeeded_indexes=None),
        {},
        "Try 2 of 3 runs all 2,000 again.",
    ),
}


@pytest.mark.parametrize(("given", "fields", "want"), OTHER_ORDERS.values(), ids=OTHER_ORDERS.keys())
def test_what_the_next_try_runs_depends_on_what_was_ordered(
    given: Verdict, fields: dict[str, Any], want: str
) -> None:
    assert told(given, try_number=1, max_tries=2, **fields).endswith(want)


def test_indexes_asked_for_are_counted_by_themselves() -> None:
    text = told(verdict(asked=4, asked_succeeded=3))

    assert "3 of 4 asked, of 2,000; 1,978 have succeeded in all." in text


CLASSES = {
    Cause.TOO_FEW: errors.ThresholdNotMetError,
    Cause.FAIL_JOB_RULE: errors.FailJobRuleError,
    Cause.DEADLINE: errors.DeadlineError,
    Cause.EXECUTION_TIMEOUT: errors.DeadlineError,
    Cause.STOCK_OUT: errors.StockOutError,
    Cause.STOPPED: errors.StoppedError,
    Cause.VANISHED: errors.OutcomeUnknownError,
    Cause.TAKEN_OVER: errors.OutcomeUnknownError,
}


@pytest.mark.parametrize(("cause", "want"), CLASSES.items(), ids=[cause.value for cause in CLASSES])
def test_each_cause_has_its_error(cause: Cause, want: type[errors.JobFailedError]) -> None:
    assert type(error_for(verdict(cause=cause), order())) is want


def test_what_is_met_is_no_error() -> None:
    assert error_for(verdict(outcome=Outcome.MET, cause=Cause.ENOUGH), order()) is None


def test_the_result_has_exactly_these_keys() -> None:
    assert list(result_of(verdict())) == [
        "job_name", "job_namespace", "job_uid", "generation", "verdict", "reason", "completions", "succeeded",
        "failed", "not_run", "succeeded_indexes", "failed_indexes", "not_run_indexes", "losses", "fell_back",
        "cost",
    ]  # fmt: skip


def test_the_result_says_where_a_list_is_left_out() -> None:
    result = result_of(verdict(failed_indexes=None, indexes_cut=True))

    assert (result["failed_indexes"], result["indexes_cut"]) == (None, True)


def test_the_result_names_a_stop_of_ours_and_not_how_it_was_done() -> None:
    stopped = verdict(cause=Cause.STOCK_OUT, reason="DeadlineExceeded")

    assert (result_of(stopped)["reason"], result_of(verdict())["reason"]) == ("StockOut", "FailedIndexes")


def test_the_result_is_plain_json() -> None:
    result = result_of(verdict())

    assert msgspec.json.decode(msgspec.json.encode(result)) == result
