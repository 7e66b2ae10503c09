"""Pods that fail before any has succeeded: most often one mistake in all of them, better said early.

Kubernetes replaces such pods with growing pauses, in which a Job shows nothing but that it waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_batchjob.core.reading.causes import causes_text
from airflow_batchjob.core.reading.endings import Ending, ending_of
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.core.telling.notes import Note
from airflow_batchjob.core.wording import counted

_OWN_FAULTS = frozenset({Ending.PROGRAM, Ending.OUT_OF_MEMORY})


def is_failing(job: Job) -> bool:
    """Tell whether pods of `job` have failed, and none has succeeded."""
    return bool(job.status.failed) and not job.status.succeeded


def failing_notes(job: Job, pods: Sequence[Pod]) -> tuple[Note, ...]:
    """Return what pods of a Job fail of that has not succeeded in anything yet; nothing of lost ones.

    Args:
        job: As it is now.
        pods: All its pods that are known.
    """
    if not is_failing(job):
        return ()
    failed = [pod for pod in pods if pod.status.phase == "Failed" and ending_of(pod) in _OWN_FAULTS]
    if not failed:
        return ()
    text = f"{counted(len(failed), 'pod')} failed, none succeeded so far: {causes_text(None, failed)}"
    return (Note("failing", text, warning=True),)
