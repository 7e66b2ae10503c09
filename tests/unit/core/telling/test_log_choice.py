"""The parameter `logs`."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.telling.log_choice import read_log_choice

CHOICES = {
    "auto, few completions: every line": ("auto", 4, [0, 3, None], [], True),
    "auto, many completions: tails alone": ("auto", 5, [], [0, 4, None], True),
    "auto, a work queue: nobody knows how many": ("auto", None, [], [None], True),
    "all": ("all", 2000, [0, 1999, None], [], True),
    "failed": ("failed", 1, [], [0], True),
    "none": ("none", 1, [], [0], False),
    "indexes": ("0,17", 2000, [0, 17], [1, None], True),
    "ranges": ("3-5", 2000, [3, 4, 5], [2, 6], True),
    "in capitals": (" ALL ", 2000, [7], [], True),
}


@pytest.mark.parametrize(
    ("logs", "completions", "follows", "follows_not", "tails"), CHOICES.values(), ids=CHOICES.keys()
)
def test_choice(
    logs: str,
    completions: int | None,
    follows: list[int | None],
    follows_not: list[int | None],
    tails: bool,
) -> None:
    choice = read_log_choice(logs, completions)

    assert all(choice.follows(index) for index in follows)
    assert not any(choice.follows(index) for index in follows_not)
    assert choice.follows_any == bool(follows)
    assert choice.tails is tails


@pytest.mark.parametrize("logs", ["some", "3-1", "-1", "0,x"])
def test_anything_else_is_refused_with_the_mend(logs: str) -> None:
    with pytest.raises(SpecError, match='Write "auto", "all", "failed", "none" or indexes'):
        read_log_choice(logs, 10)
