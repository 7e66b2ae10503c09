"""What messages share: counts in words ("1 pod", "2,000 pods"), and values that are better not shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def counted(count: int, one: str, more: str = "") -> str:
    """Return `count` with its noun: "1 index", "2,000 indexes".

    Args:
        count: How many.
        one: The noun, and what follows it, for one: "pod", "index failed", "pod is".
        more: The same for any other number; "": `one` with an s.
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def hidden(value: Any) -> str:
    """Return what kind of thing `value` is, in place of itself: a message ends in logs and on pages.

    For environments, arguments and annotations, which may hold secrets.
    """
    match value:
        case bool() | None:
            return repr(value)
        case str():
            return "(text)" if value else "(empty text)"
        case int() | float():
            return "(a number)"
        case Mapping():
            return "(a mapping)"
        case list() | tuple():
            return "(a list)"
        case _:
            return f"({type(value).__name__})"
