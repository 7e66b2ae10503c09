"""What the task's own store keeps of its newest Job, for the day when that Job is gone."""

from __future__ import annotations

import msgspec

from airflow_batchjob.core.event import Outcome, Verdict
from airflow_batchjob.core.identity.marks import ReportedMark, was_cleared


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a Job ended, what it had done, and what was told of it.

    Attributes:
        name: Of the Job.
        uid: Of the Job.
        generation: Of the Job.
        digests: Of what it ran.
        verdict: How it ended; its `succeeded_indexes` are what a later generation need not run.
        reported: What was told to Airflow; None where the task had no chance to tell.
        ended_at: Epoch seconds; 0 where nobody knows.
    """

    name: str
    uid: str
    generation: int
    digests: dict[str, str]
    verdict: Verdict
    reported: ReportedMark | None = None
    ended_at: float = 0.0

    def to_text(self) -> str:
        """Return it as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Record | None:
        """Read it; None where it can't be read: a store is a help, never an obstacle."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, ValueError):
            return None


def merged(new: Record, old: Record | None) -> Record:
    """Return what to keep now that `new` is known.

    Of a Job that nobody ever saw nothing is known, and of one that did very much not all: what the
    generation before it had done still stands, unless the task was cleared or indexes were asked for
    again in between.
    """
    is_known = new.verdict.outcome is Outcome.MET or new.verdict.succeeded_indexes is not None
    if is_known or old is None or old.digests != new.digests:
        return new
    if new.verdict.asked is not None or _is_cleared_between(old, new):
        return new
    verdict = msgspec.structs.replace(
        new.verdict,
        succeeded=old.verdict.succeeded,
        succeeded_indexes=old.verdict.succeeded_indexes,
    )
    return msgspec.structs.replace(new, verdict=verdict, ended_at=old.ended_at)


def _is_cleared_between(old: Record, new: Record) -> bool:
    if old.reported is None or new.reported is None:
        return False
    return was_cleared(old.reported, new.reported)
