"""Sets of indexes as Kubernetes writes them: ``0,1,3-7``.

Kept as disjoint ranges, so that a Job of 100,000 finished indexes is one pair of numbers and not
100,000 of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""First and last index, both included."""


class Intervals:
    """A set of indexes. Immutable.

    Args:
        ranges: Ascending, disjoint and not adjacent.
    """

    __slots__ = ("_count", "_firsts", "_text", "ranges")

    def __init__(self, ranges: tuple[Range, ...] = ()) -> None:
        self.ranges = ranges
        self._count: int | None = None
        self._text: str | None = None
        self._firsts: list[int] | None = None

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Intervals:
        """Return the set of these indexes, in any order."""
        return cls(tuple(_merge((index, index) for index in sorted(set(indexes)))))

    @classmethod
    def parse(cls, text: str, limit: int) -> Intervals:
        """Read interval text; parts that are broken are left out and indexes from `limit` on are cut.

        Source:
            The Job controller reads ``status.completedIndexes`` the same forgiving way.
        """
        read = []
        for part in text.split(","):
            first_text, dash, last_text = part.partition("-")
            if not first_text.isdecimal() or (dash and not last_text.isdecimal()):
                continue
            first = int(first_text)
            last = min(int(last_text) if dash else first, limit - 1)
            if first <= last:
                read.append((first, last))
        return cls(tuple(_merge(sorted(read))))

    def __str__(self) -> str:
        """Return the text: three or more in a row are ``a-b``, exactly two are ``a,b``."""
        if self._text is None:
            self._text = ",".join(_range_text(first, last) for first, last in self.ranges)
        return self._text

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(last - first + 1 for first, last in self.ranges)
        return self._count

    def __contains__(self, index: int) -> bool:
        if self._firsts is None:
            self._firsts = [first for first, _ in self.ranges]
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self.ranges[at][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"Intervals({str(self)!r})"

    def add(self, indexes: Iterable[int]) -> Intervals:
        """Return the set with these indexes too; `self` where it has them all."""
        new = sorted({index for index in indexes if index not in self})
        if not new:
            return self
        return Intervals(tuple(_merge(sorted([*self.ranges, *((index, index) for index in new)]))))

    def union(self, other: Intervals) -> Intervals:
        """Return the indexes that are in either."""
        return Intervals(tuple(_merge(sorted([*self.ranges, *other.ranges])))) if other.ranges else self

    def overlap(self, other: Intervals) -> int:
        """Return how many indexes are in both."""
        return len(self) + len(other) - len(self.union(other))

    def missing(self, limit: int) -> Iterator[int]:
        """Yield, ascending, the indexes below `limit` that are not in the set."""
        after = 0
        for first, last in self.ranges:
            yield from range(after, min(first, limit))
            after = last + 1
        yield from range(after, limit)


def _merge(ranges: Iterable[Range]) -> Iterator[Range]:
    current: Range | None = None
    for first, last in ranges:
        if current is None:
            current = (first, last)
        elif first <= current[1] + 1:
            current = (current[0], max(current[1], last))
        else:
            yield current
            current = (first, last)
    if current is not None:
        yield current


def _range_text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
