"""Whether a stop holds: who sent it may be gone, and others write to the Job, too."""

from __future__ import annotations

from airflow_batchjob.core.identity.marks import read_marks
from airflow_batchjob.core.reading.job import Job


def is_stopped(job: Job) -> bool:
    """Tell whether nothing but its controller is needed to end `job`, which we have stopped.

    A queue that suspends it again before its controller has seen the stop keeps it for ever; without the
    deadline of 0 the mark says no more than that someone wanted to stop it.
    """
    return is_told_to_end(job) and not job.spec.suspend


def is_told_to_end(job: Job) -> bool:
    """Tell whether `job` was stopped by us and nobody has taken that back, be it suspended or not."""
    return read_marks(job).stop is not None and job.spec.active_deadline_seconds == 0
