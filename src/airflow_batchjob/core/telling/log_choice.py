"""Whose logs are shown: the parameter `logs`, read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.indexes import IndexSet

FOLLOWED_BY_DEFAULT = 4
"""Up to so many completions every line is shown live, as a pod operator does."""


class LogMode(str, Enum):
    AUTO = "auto"
    ALL = "all"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """What is followed live, and whether failed indexes' tails are shown at the end."""

    every: bool = False
    indexes: IndexSet = field(default_factory=IndexSet)
    tails: bool = True

    @property
    def follows_any(self) -> bool:
        return self.every or bool(self.indexes)

    def follows(self, index: int | None) -> bool:
        """Tell whether the pods of `index` are followed (None: of a Job that is not indexed)."""
        return self.every or (index is not None and index in self.indexes)


def read_log_choice(logs: str, completions: int | None) -> LogChoice:
    """Read the parameter `logs`: auto, all, failed, none or index ranges ("0,17").

    Args:
        logs: As the author wrote it.
        completions: Of the Job; None on a work queue.

    Raises:
        SpecError: It is neither a word that is known nor index ranges.
    """
    match logs.strip().lower():
        case LogMode.AUTO.value:
            return LogChoice(every=completions is not None and completions <= FOLLOWED_BY_DEFAULT)
        case LogMode.ALL.value:
            return LogChoice(every=True)
        case LogMode.FAILED.value:
            return LogChoice()
        case LogMode.NONE.value:
            return LogChoice(tails=False)
        case _:
            return LogChoice(indexes=_indexes(logs))


def _indexes(logs: str) -> IndexSet:
    try:
        found = IndexSet.typed(logs, field="logs")
    except SpecError as raised:
        mend = 'Write "auto", "all", "failed", "none" or indexes, e.g. "0,17"'
        why = "neither a choice that is known nor indexes"
        raise SpecError(Problem("logs", logs, why, mend)) from raised
    return found
