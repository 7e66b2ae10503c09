"""Counts in words."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.wording import counted

COUNTS = {
    "none": (0, "0 pods are left"),
    "one": (1, "1 pod is left"),
    "several": (2, "2 pods are left"),
    "many": (2_000, "2,000 pods are left"),
}


@pytest.mark.parametrize(("count", "want"), COUNTS.values(), ids=COUNTS.keys())
def test_noun_and_verb_agree_with_the_count(count: int, want: str) -> None:
    assert f"{counted(count, 'pod is', 'pods are')} left" == want


def test_most_nouns_take_an_s() -> None:
    assert (counted(1, "core"), counted(2, "core")) == ("1 core", "2 cores")
