"""Tell the Jobs of a DAG run from those of a deleted and re-created one of the same name.

An incarnation says it where both sides have one. Where one has none (below Airflow 3.3, in a run that
saw the upgrade, or while the task's store was out of order), task instance ids and tries stand in.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from typing_extensions import Self

from airflow_batchjob.core.identity.marks import Marks

# A UUID of version 7 begins with the time at which it was made, so text order is order in time.
_HOLDER = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})/([0-9]{1,9})")


def is_of_another_run(marks: Marks, *, incarnation: str, holder: str) -> bool:
    """Tell whether a Job with these marks belongs to another run than the one that asks.

    Within one run each try has a number above all earlier ones, and an id of its own, made later: who
    comes later with a number that an earlier id has had already is of a run that began anew.

    Args:
        marks: Of the Job.
        incarnation: Of the run that asks; "": nobody knows.
        holder: Who asks: task instance id and try.
    """
    if marks.incarnation and incarnation:
        return marks.incarnation != incarnation
    theirs, ours = _Try.of(marks.holder), _Try.of(holder)
    if theirs is None or ours is None:
        return False
    return theirs.task_instance < ours.task_instance and theirs.number >= ours.number


class _Try(NamedTuple):
    task_instance: str
    number: int

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Return the try that `holder` names; None where it is no task instance of Airflow's."""
        found = _HOLDER.fullmatch(holder)
        return None if found is None else cls(found[1], int(found[2]))
