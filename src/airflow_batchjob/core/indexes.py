"""Sets of indexes as ranges, read and written as Kubernetes does ("0-2,5,6").

Only the borders are held: two thousand million indexes in one run cost as much as one. Text comes
from two sides. `IndexSet.parse` reads what Kubernetes wrote and, as its own controller does, skips
what it can't read; `IndexSet.typed` reads what a person wrote and refuses what is not clear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from airflow_batchjob.core.errors import Problem, SpecError

Range = tuple[int, int]
"""First and last index, both included."""

LARGEST_INDEX = 2**31 - 2
"""`completions` is an int32, and indexes start at 0."""

_LONGEST_LIST = 10_000_000
# Python reads no number of more than 4,300 digits, and no index has more than ten.
_FRAGMENT = re.compile(r"([0-9]{1,40})-([0-9]{1,40})")
_TYPED_FRAGMENT = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", re.ASCII)
_LONGEST_NUMBER = 40
_SHORT = 1_000  # characters that are read as quickly as they are found again
_EXAMPLE = 'Write numbers and ranges in rising order, e.g. "3,7-9"'


@dataclass(frozen=True, slots=True, repr=False)
class IndexSet:
    """A set of indexes: `ranges` are sorted, disjoint and not adjacent."""

    ranges: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        before = -2
        for first, last in self.ranges:
            if first <= before + 1 or last < first:
                raise ValueError(f"ranges must rise with gaps between them: {first}-{last} after {before}")
            before = last

    @classmethod
    def parse(cls, text: str | None, *, completions: int | None = None) -> IndexSet:
        """Read what Kubernetes wrote, e.g. `status.completedIndexes`.

        Args:
            text: Intervals; None and "" are the empty set. A fragment that is broken is skipped.
            completions: Indexes from here on are left out, as the Job controller does.
        """
        end = LARGEST_INDEX if completions is None else completions - 1
        if not text:
            return cls()
        return _parsed(text, end) if len(text) > _SHORT else cls(_merged(_readable(text, end)))

    @classmethod
    def typed(cls, text: str, *, field: str = "indexes", completions: int | None = None) -> IndexSet:
        """Read what a person wrote: any order, overlaps and spaces are fine, nothing is skipped.

        Args:
            text: E.g. "3,7-9"; "" is the empty set.
            field: Whose value it is, for the error.
            completions: Indexes from here on are refused.

        Raises:
            SpecError: With one problem for each fragment that is not clear.
        """
        end = LARGEST_INDEX if completions is None else completions - 1
        if not isinstance(text, str):
            raise SpecError(Problem(field, text, "not range text", _EXAMPLE))
        read = [_read_fragment(part, field, end) for part in text.split(",")] if text.strip() else []
        if problems := [found for found in read if isinstance(found, Problem)]:
            raise SpecError(*problems)
        return cls(_merged(sorted(found for found in read if not isinstance(found, Problem))))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        """Return the set of these indexes, in any order."""
        return cls(_merged((index, index) for index in sorted(indexes)))

    @classmethod
    def full(cls, completions: int) -> IndexSet:
        """Return all indexes of a Job with so many completions."""
        return cls(((0, completions - 1),) if completions > 0 else ())

    @property
    def count(self) -> int:
        """How many indexes are in the set."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        at = bisect_right(self.ranges, (index, LARGEST_INDEX + 1)) - 1
        return at >= 0 and index <= self.ranges[at][1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, last + 1) for first, last in self.ranges)

    def __or__(self, other: IndexSet) -> IndexSet:
        if not (self.ranges and other.ranges):
            return self if self.ranges else other
        return IndexSet(_merged(sorted(self.ranges + other.ranges)))

    def __and__(self, other: IndexSet) -> IndexSet:
        return IndexSet(tuple(_common(self.ranges, other.ranges)))

    def __sub__(self, other: IndexSet) -> IndexSet:
        if not other.ranges:
            return self
        return IndexSet(tuple(_without(self.ranges, other.ranges)))

    def __str__(self) -> str:
        return ",".join(map(_written, self.ranges))

    def __repr__(self) -> str:
        text, left_out = self.cut(80)
        return f"IndexSet({text!r}{f' and {left_out} more' if left_out else ''})"

    def cut(self, max_bytes: int) -> tuple[str, int]:
        """Return the text of as many whole ranges as fit, and how many indexes it leaves out.

        Args:
            max_bytes: Longest text; the first range that doesn't fit is left out with all that follow.
        """
        texts: list[str] = []
        size = -1  # the first has no comma before it
        for text in map(_written, self.ranges):
            size += len(text) + 1
            if size > max_bytes:
                break
            texts.append(text)
        return ",".join(texts), sum(last - first + 1 for first, last in self.ranges[len(texts) :])


def expand_indexes(text: str | None) -> list[int]:
    """Return the indexes that range text stands for, rising: "3,7-9" is [3, 7, 8, 9].

    Takes what the operator and the sensor return, e.g. `failed_indexes`.

    Raises:
        SpecError: It is None (the list was too long to be returned), not range text, or more than
            ten million indexes.
    """
    if text is None:
        why = "the list was too long for an XCom and was left out (see indexes_cut)"
        raise SpecError(Problem("indexes", text, why, "Read it from the Job's status"))
    indexes = IndexSet.typed(text)
    if indexes.count > _LONGEST_LIST:
        why = f"{indexes.count:,} indexes are too many for a list"
        raise SpecError(Problem("indexes", text[:80], why, "Iterate over IndexSet.typed(text) instead"))
    return list(indexes)


@lru_cache(maxsize=8)  # one look at a Job reads the same text many times, and a long one takes 50 ms
def _parsed(text: str, end: int) -> IndexSet:
    return IndexSet(_merged(_readable(text, end)))


def _readable(text: str, end: int) -> list[Range]:
    found: list[Range] = []
    for fragment in text.split(","):
        if len(fragment) <= _LONGEST_NUMBER and fragment.isdecimal() and fragment.isascii():
            first = last = int(fragment)
        elif match := _FRAGMENT.fullmatch(fragment):
            first, last = int(match[1]), min(int(match[2]), end)
        else:
            continue
        if first <= last <= end:
            found.append((first, last))
    found.sort()  # they rise already, unless an external controller wrote them
    return found


def _read_fragment(text: str, field: str, end: int) -> Range | Problem:
    found = _TYPED_FRAGMENT.fullmatch(text)
    if found is None:
        return Problem(field, text, "neither an index nor a range", _EXAMPLE)
    if max(map(len, found.groups(default=""))) > _LONGEST_NUMBER:
        return Problem(field, text[:80], "there is no such index", f"The largest is {end}")
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        return Problem(field, text, "the range runs backwards", f'Write "{last}-{first}"')
    if last > end:
        return Problem(field, text, "there is no such index", f"The largest is {end}")
    return first, last


def _merged(rising: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    start, end = -1, -2
    for one in rising:
        first, last = one
        if first > end + 1 or not merged:
            merged.append(one)
            start, end = one
        elif last > end:
            end = last
            merged[-1] = (start, end)
    return tuple(merged)


def _common(ours: tuple[Range, ...], theirs: tuple[Range, ...]) -> Iterator[Range]:
    left, right = 0, 0
    while left < len(ours) and right < len(theirs):
        (first, last), (other_first, other_last) = ours[left], theirs[right]
        if other_last < last:
            right += 1
        else:
            left += 1
        start = max(first, other_first)
        end = min(last, other_last)
        if start <= end:
            yield start, end


def _without(ours: tuple[Range, ...], theirs: tuple[Range, ...]) -> Iterator[Range]:
    at = 0
    for first, last in ours:
        start = first
        while at < len(theirs) and theirs[at][1] < start:
            at += 1
        hole = at
        while hole < len(theirs) and theirs[hole][0] <= last:
            if start < theirs[hole][0]:
                yield start, theirs[hole][0] - 1
            start = theirs[hole][1] + 1
            hole += 1
        at = max(at, hole - 1)
        if start <= last:
            yield start, last


def _written(indexes: Range) -> str:
    first, last = indexes
    if first == last:
        return str(first)
    # Kubernetes writes a run of exactly two as two numbers.
    return f"{first},{last}" if first + 1 == last else f"{first}-{last}"
