"""Where a Job stands, for every shape of Job that controllers write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import Phase, phase_of, read_status


def job(*conditions: tuple[str, str, str], spec: dict[str, Any] | None = None, **status: Any) -> Job:
    """A Job with `(type, status, reason)` conditions."""
    listed = [{"type": t, "status": s, "reason": r, "lastTransitionTime": END} for t, s, r in conditions]
    tree = {
        "metadata": {"name": "embed", "namespace": "ml", "uid": "u"},
        "spec": spec or {"completionMode": "Indexed", "completions": 10},
        "status": {"conditions": listed, **status},
    }
    return msgspec.convert(tree, Job)


END = "2026-03-01T12:00:00Z"

PHASES = {
    "no status: the controller has not seen it": (
        msgspec.convert({"metadata": {}}, Job), Phase.PENDING, "",
    ),
    "no pod yet": (job(), Phase.PENDING, ""),
    "one pod active": (job(active=1), Phase.RUNNING, ""),
    "held by a queue": (job(("Suspended", "True", "JobSuspended")), Phase.SUSPENDED, "JobSuspended"),
    "resumed: the condition stays, False": (
        job(("Suspended", "False", "JobResumed"), active=1), Phase.RUNNING, "",
    ),
    "complete, not true": (job(("Complete", "False", ""), active=1), Phase.RUNNING, ""),
    "failed, unknown": (job(("Failed", "Unknown", ""), active=1), Phase.RUNNING, ""),
    "failing, pods still terminating": (
        job(("FailureTarget", "True", "DeadlineExceeded"), terminating=2), Phase.STOPPING, "DeadlineExceeded",
    ),
    "succeeding, pods still terminating": (
        job(("SuccessCriteriaMet", "True", "SuccessPolicy"), terminating=2), Phase.STOPPING, "SuccessPolicy",
    ),
    "failed wins over what announced it": (
        job(("FailureTarget", "True", "PodFailurePolicy"), ("Failed", "True", "PodFailurePolicy")),
        Phase.FAILED, "PodFailurePolicy",
    ),
    "stopped while suspended: both are true": (
        job(("Suspended", "True", "JobSuspended"), ("Failed", "True", "DeadlineExceeded")),
        Phase.FAILED, "DeadlineExceeded",
    ),
    "failed without a reason is failed": (job(("Failed", "True", "")), Phase.FAILED, ""),
    "failed although no pod failed": (job(("Failed", "True", "X"), failed=0), Phase.FAILED, "X"),
    "complete although pods failed": (
        job(("Complete", "True", "CompletionsReached"), failed=7), Phase.SUCCEEDED, "CompletionsReached",
    ),
    "all succeeded, no condition yet": (job(succeeded=10, completedIndexes="0-9"), Phase.PENDING, ""),
    "pods failed, no condition yet": (job(active=1, failed=3), Phase.RUNNING, ""),
    "a condition of the future": (job(("Hibernating", "True", "X"), active=1), Phase.RUNNING, ""),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "want_phase", "want_reason"), PHASES.values(), ids=PHASES.keys())
def test_phase_and_reason(seen: Job, want_phase: Phase, want_reason: str) -> None:
    status = read_status(seen)

    assert (status.phase, status.reason) == (want_phase, want_reason)
    assert phase_of(seen) is want_phase


@pytest.mark.parametrize("phase", Phase)
def test_only_two_phases_are_final(phase: Phase) -> None:
    assert phase.is_final == (phase in {Phase.SUCCEEDED, Phase.FAILED})


def test_indexes_are_counted_not_pods() -> None:
    status = read_status(job(active=1, failed=9, succeeded=3, completedIndexes="0-3", failedIndexes="5,6"))

    assert (status.succeeded, status.failed, status.failed_pods, status.remaining) == (4, 2, 9, 4)
    assert (str(status.succeeded_indexes), str(status.failed_indexes)) == ("0-3", "5,6")


LENIENT = {
    "broken fragments go": ("0-2,x,5-,7", "0-2,7"),
    "two as a range": ("0-1", "0,1"),
    "indexes beyond the completions go": ("8-12", "8,9"),
    "out of order": ("7,1", "1,7"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("text", "want"), LENIENT.values(), ids=LENIENT.keys())
def test_index_lists_are_read_as_the_controller_reads_them(text: str, want: str) -> None:
    assert str(read_status(job(completedIndexes=text)).succeeded_indexes) == want


def test_a_job_that_is_not_indexed_counts_pods() -> None:
    status = read_status(job(spec={"completions": 3}, succeeded=2, failed=4, completedIndexes="0-9"))

    assert (status.indexed, status.succeeded, status.failed, status.failed_pods) == (False, 2, 0, 4)
    assert not status.succeeded_indexes


def test_a_work_queue_has_no_remainder() -> None:
    assert read_status(job(spec={"parallelism": 3})).remaining is None


def test_the_end_of_a_failed_job_is_its_conditions_time() -> None:
    failed = read_status(job(("Failed", "True", "X")))

    assert failed.ended_at is not None
    assert failed.ended_at.isoformat() == "2026-03-01T12:00:00+00:00"
    assert read_status(job(active=1)).ended_at is None


def test_a_suspension_that_was_asked_for_shows_before_the_condition() -> None:
    status = read_status(job(spec={"suspend": True}, active=3))

    assert (status.phase, status.suspend_asked) == (Phase.RUNNING, True)
