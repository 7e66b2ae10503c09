"""How an ended Job is judged: one order, the first that matches."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.deciding.report import for_event
from airflow_batchjob.core.deciding.verdict import judge, judge_vanished, stop_of, taken_over
from airflow_batchjob.core.event import Cause, Outcome
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from tests.unit.core.made import NOW, complete, condition, failed, job, order, suspended

MET_COMPLETE, MET_ENOUGH = (Outcome.MET, Cause.COMPLETE), (Outcome.MET, Cause.ENOUGH)


def not_met(cause: Cause) -> tuple[Outcome, Cause]:
    return Outcome.NOT_MET, cause


def stop(cause: str, at: float = NOW - 5) -> dict[str, Any]:
    return {"cause": cause, "words": "as told", "at": at}


def deadline(stands_for: str, seconds: int = 100) -> dict[str, Any]:
    return {"stands_for": stands_for, "seconds": seconds, "holder": "ti/1"}


EXCEEDED = failed("DeadlineExceeded")
OF_OURS = {"activeDeadlineSeconds": 100}

# A Job, min_succeeded, and how it ended.
ORDER: dict[str, tuple[Job, int | None, tuple[Outcome, Cause]]] = {
    "complete": (job(*complete(), completedIndexes="0-9"), None, MET_COMPLETE),
    "complete by the manifest's success policy": (
        job(*complete("SuccessPolicy"), completedIndexes="0-3"),
        None,
        MET_COMPLETE,
    ),
    "complete by a success policy, below min_succeeded": (
        job(*complete("SuccessPolicy"), completedIndexes="0-3"),
        5,
        not_met(Cause.TOO_FEW),
    ),
    "complete by a success policy, min_succeeded reached": (
        job(*complete("SuccessPolicy"), completedIndexes="0-4"),
        5,
        MET_COMPLETE,
    ),
    "complete because someone took completions away": (
        job(*complete(), spec={"completions": 4}, completedIndexes="0-3"),
        None,
        not_met(Cause.TOO_FEW),
    ),
    "every index done, then the deadline fired": (job(*EXCEEDED, completedIndexes="0-9"), None, MET_ENOUGH),
    "every index done, then a person stopped it": (
        job(*EXCEEDED, completedIndexes="0-9", stop=stop("stopped")),
        None,
        MET_ENOUGH,
    ),
    "a FailJob rule, whatever has succeeded": (
        job(*failed("PodFailurePolicy"), completedIndexes="0-8"),
        1,
        not_met(Cause.FAIL_JOB_RULE),
    ),
    "stopped by a person, whatever has succeeded": (
        job(*EXCEEDED, completedIndexes="0-8", stop=stop("stopped")),
        1,
        not_met(Cause.STOPPED),
    ),
    "our execution timeout, whatever has succeeded": (
        job(*EXCEEDED, completedIndexes="0-8", stop=stop("execution_timeout")),
        1,
        not_met(Cause.EXECUTION_TIMEOUT),
    ),
    "stock-out, whatever has succeeded": (
        job(*EXCEEDED, completedIndexes="0-8", stop=stop("stock_out")),
        1,
        not_met(Cause.STOCK_OUT),
    ),
    "Kubernetes' clock fired for the execution timeout": (
        job(*EXCEEDED, completedIndexes="0-8", deadline=deadline("execution_timeout"), spec=OF_OURS),
        1,
        not_met(Cause.EXECUTION_TIMEOUT),
    ),
    "Kubernetes' clock fired for deadline_seconds, too few": (
        job(*EXCEEDED, completedIndexes="0-4", deadline=deadline("deadline_seconds"), spec=OF_OURS),
        6,
        not_met(Cause.DEADLINE),
    ),
    "Kubernetes' clock fired for deadline_seconds, enough": (
        job(*EXCEEDED, completedIndexes="0-4", deadline=deadline("deadline_seconds"), spec=OF_OURS),
        5,
        MET_ENOUGH,
    ),
    "our clock fired for deadline_seconds, enough": (
        job(*EXCEEDED, completedIndexes="0-4", stop=stop("deadline")),
        5,
        MET_ENOUGH,
    ),
    "our clock fired for deadline_seconds, too few": (
        job(*EXCEEDED, completedIndexes="0-4", stop=stop("deadline")),
        6,
        not_met(Cause.DEADLINE),
    ),
    "a deadline that someone else wrote stands for itself": (
        job(*EXCEEDED, deadline=deadline("execution_timeout"), spec={"activeDeadlineSeconds": 7}),
        None,
        not_met(Cause.DEADLINE),
    ),
    "failed indexes": (job(*failed("FailedIndexes"), completedIndexes="0-8"), None, not_met(Cause.TOO_FEW)),
    "failed indexes, enough": (job(*failed("FailedIndexes"), completedIndexes="0-8"), 9, MET_ENOUGH),
    "the fuse, enough": (job(*failed("MaxFailedIndexesExceeded"), completedIndexes="0-8"), 9, MET_ENOUGH),
    "backoffLimit": (job(*failed("BackoffLimitExceeded")), None, not_met(Cause.TOO_FEW)),
    "failed without a reason is failed": (job(*failed("")), None, not_met(Cause.TOO_FEW)),
    "a stop mark on a Job that failed otherwise is no stop": (
        job(*failed("FailedIndexes"), completedIndexes="0-8", stop=stop("stopped")),
        9,
        MET_ENOUGH,
    ),
    "a stop mark on a Job that completed in between": (
        job(*complete(), completedIndexes="0-9", stop=stop("stopped")),
        None,
        MET_COMPLETE,
    ),
    "stopped while suspended: Failed and Suspended both hold": (
        job(*suspended(), *EXCEEDED, stop=stop("stopped")),
        None,
        not_met(Cause.STOPPED),
    ),
    "indexes beyond what was asked do not count": (
        job(*failed("FailedIndexes"), spec={"completions": 20}, completedIndexes="0-3,12-19"),
        5,
        not_met(Cause.TOO_FEW),
    ),
}


@pytest.mark.parametrize(("ended", "min_succeeded", "want"), ORDER.values(), ids=ORDER.keys())
def test_the_first_that_matches(ended: Job, min_succeeded: int | None, want: tuple[Outcome, Cause]) -> None:
    verdict = judge(ended, order(min_succeeded=min_succeeded))

    assert (verdict.outcome, verdict.cause) == want


RACES = {
    "the stop came first": (stop("stopped", NOW - 5), 300, Cause.STOPPED),
    "the stop came long after the deadline had fired": (stop("stopped", NOW + 20), 100, None),
    "a clock that is ahead does not undo a stop": (stop("stopped", NOW + 20), 300, Cause.STOPPED),
}


@pytest.mark.parametrize(("mark", "seconds", "want"), RACES.values(), ids=RACES.keys())
def test_a_stop_counts_only_if_it_came_before_the_deadline_itself(
    mark: dict[str, Any], seconds: int, want: Cause | None
) -> None:
    ended = job(*EXCEEDED, stop=mark, deadline=deadline("deadline_seconds", seconds), started_at=NOW - 100)

    found = stop_of(ended)

    assert (found and found.cause) == want


@pytest.mark.parametrize(
    "going_on",
    [
        job(),
        job(active=3, failed=99),
        job(condition("FailureTarget", "FailedIndexes")),
        job(condition("SuccessCriteriaMet")),
        job(condition("Complete", status="False"), condition("Failed", status="Unknown")),
        job(*suspended()),
    ],
)
def test_a_job_without_a_final_condition_is_not_judged(going_on: Job) -> None:
    with pytest.raises(ValueError, match="has not ended"):
        judge(going_on, order())


def test_a_work_queue_is_judged_by_its_condition_and_counts_pods() -> None:
    ended = job(
        *complete(), spec={"completionMode": "NonIndexed", "completions": None}, succeeded=7, failed=2
    )

    verdict = judge(ended, order(completions=None, indexed=False))

    assert (verdict.outcome, verdict.succeeded, verdict.failed) == (Outcome.MET, 7, 2)
    assert verdict.completions is None


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.one_of(st.none(), st.integers(0, 10)))
def test_every_asked_index_is_counted_once(done: set[int], lost: set[int], needed: int | None) -> None:
    ended = job(
        *failed("FailedIndexes"),
        completedIndexes=str(IndexSet.of(done)),
        failedIndexes=str(IndexSet.of(lost - done)),
    )

    verdict = judge(ended, order(min_succeeded=needed))

    assert verdict.succeeded + verdict.failed + verdict.not_run == 10
    assert verdict.succeeded == len(done)
    met = len(done) >= (10 if needed is None else needed)
    assert (verdict.outcome is Outcome.MET) == met


VANISHED: dict[str, tuple[Job | None, tuple[Outcome, Cause]]] = {
    "never seen": (None, (Outcome.UNKNOWN, Cause.VANISHED)),
    "seen running": (job(active=3, completedIndexes="0-4"), (Outcome.UNKNOWN, Cause.VANISHED)),
    "enough had succeeded, and nobody saw the end": (
        job(active=1, completedIndexes="0-8"),
        (Outcome.UNKNOWN, Cause.VANISHED),
    ),
    "seen complete": (job(*complete(), completedIndexes="0-9"), MET_COMPLETE),
    "seen failed": (job(*failed("FailedIndexes")), not_met(Cause.TOO_FEW)),
    "every index was done": (job(completedIndexes="0-9"), MET_ENOUGH),
    "stopped by a person before it went": (job(stop=stop("stopped")), not_met(Cause.STOPPED)),
}


@pytest.mark.parametrize(("last", "want"), VANISHED.values(), ids=VANISHED.keys())
def test_a_job_that_is_gone(last: Job | None, want: tuple[Outcome, Cause]) -> None:
    verdict = judge_vanished(last, order(min_succeeded=9))

    assert (verdict.outcome, verdict.cause) == want


def test_a_job_that_is_gone_keeps_its_last_known_counts() -> None:
    verdict = judge_vanished(job(active=3, completedIndexes="0-4", failedIndexes="5"), order())

    assert (verdict.succeeded, verdict.failed, verdict.not_run_indexes) == (5, 1, "6-9")


def test_a_job_that_was_taken_over_says_by_whom() -> None:
    verdict = taken_over(job(holder="ti/2"), order())

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_OURS, Cause.TAKEN_OVER)
    assert "ti/2" in verdict.message


SIZES = {
    "a small Job": (10, False, False),
    "some kilobytes": (6_000, False, True),
    "a huge Job": (100_000, True, True),
}


@pytest.mark.parametrize(("completions", "want_cut", "want_event_cut"), SIZES.values(), ids=SIZES.keys())
def test_lists_are_whole_or_left_out(completions: int, want_cut: bool, want_event_cut: bool) -> None:
    ended = job(
        *failed("FailedIndexes", message="x" * 5_000),
        spec={"completions": completions},
        completedIndexes=str(IndexSet.of(range(0, completions, 3))),
        failedIndexes=str(IndexSet.of(range(1, completions, 3))),
    )

    verdict = judge(ended, order(completions=completions))
    event = for_event(verdict)

    assert (verdict.indexes_cut, event.indexes_cut) == (want_cut, want_event_cut)
    assert (verdict.succeeded_indexes is None) == want_cut
    rest = msgspec.structs.replace(event, succeeded_indexes=None)  # which a retry goes on from
    assert len(json.dumps(rest.to_json_types())) < 8_000
    assert (event.succeeded, event.failed, event.not_run) == (
        verdict.succeeded,
        verdict.failed,
        verdict.not_run,
    )


def test_the_lists_of_a_job_that_is_gone_travel_whole() -> None:
    last = job(completedIndexes=str(IndexSet.of(range(0, 6_000, 3))), spec={"completions": 6_000})

    event = for_event(judge_vanished(last, order(completions=6_000)))

    assert event.succeeded_indexes
    assert not event.indexes_cut


def test_a_verdict_survives_json() -> None:
    verdict = judge(job(*failed("FailedIndexes"), completedIndexes="0-8"), order())

    assert type(verdict).from_json_types(json.loads(json.dumps(verdict.to_json_types()))) == verdict
    assert msgspec.structs.asdict(verdict)["failed_indexes"] == ""
