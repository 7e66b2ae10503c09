"""Whole numbers in text that anyone may have written: annotations, labels."""

from __future__ import annotations

_MOST_DIGITS = 10  # as many as the largest index has; Python itself reads no more than 4,300


def digits(text: str) -> int | None:
    """Return the number that `text` consists of; None where it is no number of at most ten digits 0 to 9.

    Unlike `int`, it takes no sign, no space, no underscore and no digit of another script.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None
