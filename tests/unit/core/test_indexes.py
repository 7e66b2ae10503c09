"""Sets of indexes: the laws of sets, Kubernetes' own text, and what a person may type."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.indexes import IndexSet, expand_indexes

INDEXES = st.sets(st.integers(0, 60))

WRITTEN = {
    "nothing": ([], ""),
    "a run of two": ([0, 1], "0,1"),
    "a run of three": ([0, 1, 2], "0-2"),
    "mixed": ([1, 3, 4, 5, 7], "1,3-5,7"),
    "two runs of two": ([0, 1, 3, 4], "0,1,3,4"),
    "any order, repeated": ([5, 3, 4, 3], "3-5"),
}


@pytest.mark.parametrize(("indexes", "want"), WRITTEN.values(), ids=WRITTEN.keys())
def test_text_is_written_as_kubernetes_does(indexes: list[int], want: str) -> None:
    assert str(IndexSet.of(indexes)) == want


KUBERNETES_TEXT = {
    "absent": (None, None, ""),
    "empty": ("", None, ""),
    "a run of two as a range": ("0-1", None, "0,1"),
    "a run of two as numbers": ("0,1", None, "0,1"),
    "adjacent ranges are one": ("0-2,3-5", None, "0-5"),
    "broken fragments are skipped": ("0-2,x,5-,-7,,9", None, "0-2,9"),
    "numbers longer than Python reads are skipped": (f"0-2,{'1' * 5_000},3-{'1' * 5_000}", None, "0-2"),
    "a descending range is skipped": ("9-7,1", None, "1"),
    "out of order and overlapping": ("7-9,3,8-11", None, "3,7-11"),
    "cut at completions": ("0-2,5-8,9", 7, "0-2,5,6"),
    "no completions at all": ("0-2", 0, ""),
    "digits of another script are broken": ("١,2", None, "2"),
    "larger than any index": ("4,99999999999999999999", None, "4"),
}


@pytest.mark.parametrize(
    ("text", "completions", "want"), KUBERNETES_TEXT.values(), ids=KUBERNETES_TEXT.keys()
)
def test_kubernetes_own_text_is_read_leniently(text: str | None, completions: int | None, want: str) -> None:
    assert str(IndexSet.parse(text, completions=completions)) == want


TYPED = {
    "as in the documentation": ("3,7-9", [3, 7, 8, 9]),
    "spaces": (" 3 , 7 - 9 ", [3, 7, 8, 9]),
    "any order, overlapping": ("7-9,3,8", [3, 7, 8, 9]),
    "a range of one": ("3-3", [3]),
    "nothing failed": ("", []),
}


@pytest.mark.parametrize(("text", "want"), TYPED.values(), ids=TYPED.keys())
def test_what_a_person_typed_is_expanded(text: str, want: list[int]) -> None:
    assert expand_indexes(text) == want


REFUSED = {
    "not numbers": ("a", "neither an index nor a range"),
    "a backward range": ("9-7", 'Write "7-9"'),
    "an open range": ("5-", "neither an index nor a range"),
    "a negative number": ("-5", "neither an index nor a range"),
    "an empty fragment": ("3,,4", "neither an index nor a range"),
    "a trailing comma": ("3,", "neither an index nor a range"),
    "beyond any Job": ("3000000000", "no such index"),
    "longer than Python reads": ("1" * 5_000, "no such index"),
    "a range longer than Python reads": ("1-" + "1" * 5_000, "no such index"),
    "too many for a list": ("0-2000000000", "too many for a list"),
    "a list that was cut": (None, "indexes_cut"),
    "a list of numbers": ([3, 4], "not range text"),
    "a number": (3, "not range text"),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_clear_is_refused(text: Any, want: str) -> None:
    with pytest.raises(SpecError) as raised:
        expand_indexes(text)

    assert want in str(raised.value)


def test_every_bad_fragment_is_named_at_once() -> None:
    with pytest.raises(SpecError) as raised:
        IndexSet.typed("1,x,9-7,12", field="rerun", completions=10)

    assert [(problem.field, problem.value) for problem in raised.value.problems] == [
        ("rerun", "x"),
        ("rerun", "9-7"),
        ("rerun", "12"),
    ]


@given(INDEXES, INDEXES)
def test_it_obeys_the_laws_of_sets(ours: set[int], theirs: set[int]) -> None:
    left, right = IndexSet.of(ours), IndexSet.of(theirs)

    assert set(left | right) == ours | theirs
    assert set(left & right) == ours & theirs
    assert set(left - right) == ours - theirs
    assert (len(left), left.count, bool(left)) == (len(ours), len(ours), bool(ours))
    assert (left == right) == (ours == theirs)
    assert [index in left for index in range(-1, 62)] == [index in ours for index in range(-1, 62)]


@given(INDEXES)
def test_what_is_written_is_read_back(indexes: set[int]) -> None:
    want = IndexSet.of(indexes)

    assert IndexSet.parse(str(want)) == IndexSet.typed(str(want)) == want
    assert expand_indexes(str(want)) == sorted(indexes)


@given(st.text(alphabet="0123456789,- x", max_size=20))
def test_any_text_of_kubernetes_makes_a_sound_set(text: str) -> None:
    read = IndexSet.parse(text, completions=50)

    assert IndexSet.of(read if read.count < 100 else ()) == read


@given(INDEXES, st.integers(0, 100))
def test_a_cut_is_a_prefix_of_whole_ranges(indexes: set[int], max_bytes: int) -> None:
    whole = IndexSet.of(indexes)
    text, left_out = whole.cut(max_bytes)
    kept = IndexSet.parse(text)

    assert len(text) <= max_bytes
    assert kept.ranges == whole.ranges[: len(kept.ranges)]
    assert kept.count + left_out == whole.count
    if left_out:
        following = str(IndexSet(whole.ranges[: len(kept.ranges) + 1]))
        assert len(following) > max_bytes


def test_all_of_two_thousand_million_cost_nothing() -> None:
    everything = IndexSet.full(2_000_000_000)
    rest = everything - IndexSet.parse("5")

    assert (len(rest), str(rest)) == (1_999_999_999, "0-4,6-1999999999")
    assert 1_999_999_999 in rest
    assert 5 not in rest
    assert IndexSet.full(0) == IndexSet()


def test_a_hundred_thousand_scattered_indexes_are_read_and_written_at_once() -> None:
    text = ",".join(map(str, range(0, 200_000, 2)))
    began = time.perf_counter()

    read = IndexSet.parse(text)
    written = str(read)
    rest = IndexSet.full(200_000) - read

    assert (written, read.count, rest.count) == (text, 100_000, 100_000)
    assert time.perf_counter() - began < 2  # a twentieth of it here; quadratic code takes minutes


def test_a_long_text_is_read_once_however_often_it_is_asked_for() -> None:
    text = ",".join(map(str, range(0, 100_000, 2)))

    found = IndexSet.parse(text, completions=100_000)

    assert IndexSet.parse(text, completions=100_000) is found
    assert IndexSet.parse(text, completions=50_000).count == 25_000
    assert found - IndexSet() is found
    assert found | IndexSet() is found
    assert IndexSet() | found is found


def test_an_unsound_set_can_not_be_made() -> None:
    for ranges in (((0, 1), (2, 3)), ((3, 2),), ((5, 6), (1, 2)), ((-1, 2),)):
        with pytest.raises(ValueError, match="ranges must rise"):
            IndexSet(ranges)


def test_its_repr_stays_short() -> None:
    assert repr(IndexSet.of([1, 2])) == "IndexSet('1,2')"
    assert len(repr(IndexSet.of(range(0, 10_000, 2)))) < 120


def test_an_index_is_a_number() -> None:
    assert "3" not in IndexSet.of([3])
