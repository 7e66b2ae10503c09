"""The objects of one kind at one moment, in order: a page costs what is on it, not what there is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_Object = dict[str, Any]
_Key = tuple[str, str]


class Moment:
    """Objects by namespace and name. Good until the next change of the store that it is of.

    Args:
        objects: As they are now.
        keys: Theirs, sorted.
        undone: What differed at that moment: the object as it was, None for one that was not there.
    """

    def __init__(
        self,
        objects: Mapping[_Key, _Object],
        keys: Sequence[_Key],
        undone: Mapping[_Key, _Object | None],
    ) -> None:
        self._objects = objects
        self._undone = undone
        hidden = {key for key, was in undone.items() if was is None}
        gone = [key for key, was in undone.items() if was is not None and key not in objects]
        if hidden or gone:
            keys = sorted([*(key for key in keys if key not in hidden), *gone])
        self._keys = keys

    def objects(self, namespace: str | None = None, after: _Key = ("", "")) -> Iterator[_Object]:
        """Yield the objects of a namespace, or of all with None, that come after a position."""
        first, last = self._range(namespace, after)
        for index in range(first, last):
            key = self._keys[index]
            yield self._undone.get(key) or self._objects[key]

    def count(self, namespace: str | None = None, after: _Key = ("", "")) -> int:
        """Return how many objects `objects` yields."""
        first, last = self._range(namespace, after)
        return last - first

    def _range(self, namespace: str | None, after: _Key) -> tuple[int, int]:
        first, last = bisect_right(self._keys, after), len(self._keys)
        if namespace is not None:
            first = max(first, bisect_left(self._keys, (namespace, "")))
            last = bisect_left(self._keys, (namespace + "\0", ""))
        return first, max(first, last)
