"""Tell the Jobs of a DAG run from those of a deleted and re-created one of the same name.

An incarnation says it where both sides have one. Where one has none (below Airflow 3.3, in a run that
saw the upgrade, or while the task's store was out of order), that proves nothing.
"""

from __future__ import annotations

from airflow_batchjob.core.identity.marks import Marks


def is_of_another_run(marks: Marks, *, incarnation: str) -> bool:
    """Tell whether a Job with these marks belongs to another run than the one that asks.

    Args:
        marks: Of the Job.
        incarnation: Of the run that asks; "": nobody knows.
    """
    if not marks.incarnation or not incarnation:
        return False
    return marks.incarnation != incarnation
