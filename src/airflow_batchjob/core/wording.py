"""Counts in words: "1 pod", "2,000 pods"."""

from __future__ import annotations


def counted(count: int, one: str, more: str = "") -> str:
    """Return `count` with its noun: "1 index", "2,000 indexes".

    Args:
        count: How many.
        one: The noun, and what follows it, for one: "pod", "index failed", "pod is".
        more: The same for any other number; "": `one` with an s.
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"
