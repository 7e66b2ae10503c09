"""How long a failure holds back the next pod: 10 s, doubled with each failure, at most 10 minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from airflow_batchjob.local.controller.facts import PodFacts
from airflow_batchjob.local.controller.model import Memory

FIRST_DELAY_SECONDS = 10.0
LONGEST_DELAY_SECONDS = 600.0


def remember(memory: Memory, succeeded: Sequence[PodFacts], failed: Sequence[PodFacts]) -> Memory:
    """Return the memory after these newly finished pods: a success forgets the failures before it."""
    ends = sorted(pod.finished_at for pod in failed)
    if not succeeded:
        if not ends:
            return memory
        return replace(memory, failures=memory.failures + len(ends), last_failure=ends[-1])
    last_success = max(pod.finished_at for pod in succeeded)
    after = [end for end in ends if end > last_success]
    return replace(memory, failures=len(after), last_failure=after[-1] if after else None)


def remaining_seconds(failures: int, last_failure: datetime | None, now: datetime) -> float:
    """Return how long to wait before a pod may be created; 0 where it may be now."""
    if failures <= 0 or last_failure is None:
        return 0.0
    # 2**6 * 10 s is above the longest delay already: a bigger power would only overflow.
    delay = min(FIRST_DELAY_SECONDS * (1 << min(failures - 1, 6)), LONGEST_DELAY_SECONDS)
    return max(0.0, delay - (now - last_failure).total_seconds())


def index_remaining_seconds(last: PodFacts, now: datetime) -> float:
    """Return how long the index of its last failed pod must wait."""
    return remaining_seconds(last.failure_count + last.ignored_count + 1, last.finished_at, now)
