"""Interval text: as the controller writes it, and as forgivingly as it reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.local.controller.intervals import Intervals

LIMIT = 60
indexes = st.sets(st.integers(0, LIMIT - 1))

WRITTEN = {
    "nothing is empty": ([], ""),
    "two in a row are named one by one": ([0, 1], "0,1"),
    "three in a row are a range": ([0, 1, 2], "0-2"),
    "ranges and single ones": ([1, 3, 4, 5, 7], "1,3-5,7"),
    "two pairs": ([0, 1, 3, 4], "0,1,3,4"),
}


@pytest.mark.parametrize(("given_indexes", "want"), WRITTEN.values(), ids=WRITTEN.keys())
def test_text(given_indexes: list[int], want: str) -> None:
    assert str(Intervals.of(given_indexes)) == want


READ = {
    "a pair may be a range": ("0-1", [0, 1]),
    "broken parts are left out": ("x,3,-1,4-y,6", [3, 6]),
    "descending ranges are left out": ("5-3,7", [7]),
    "the end cuts": ("58-70,90", [58, 59]),
    "order and overlap do not matter": ("7,3-5,4-6", [3, 4, 5, 6, 7]),
}


@pytest.mark.parametrize(("text", "want"), READ.values(), ids=READ.keys())
def test_reading(text: str, want: list[int]) -> None:
    assert Intervals.parse(text, LIMIT) == Intervals.of(want)


@given(indexes)
def test_what_is_written_is_read_back(chosen: set[int]) -> None:
    assert Intervals.parse(str(Intervals.of(chosen)), LIMIT) == Intervals.of(chosen)


@given(indexes, indexes)
def test_it_is_a_set(first: set[int], second: set[int]) -> None:
    a, b = Intervals.of(first), Intervals.of(second)

    assert a.add(second) == a.union(b) == Intervals.of(first | second)
    assert a.overlap(b) == len(first & second)
    assert len(a) == len(first)
    assert [index for index in range(LIMIT) if index in a] == sorted(first)
    assert list(a.missing(LIMIT)) == [index for index in range(LIMIT) if index not in first]
