"""Thresholds: how many indexes may fail and how many must succeed, as counts or percentages, exactly.

Allowed failures are rounded down and needed successes up, so rounding never makes a batch more
lenient than was asked. Percentages are fractions of whole numbers; no float takes part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.wording import counted

Count: TypeAlias = int | str
"""A whole number, or its text as Jinja renders it."""

Share: TypeAlias = int | str
"""A `Count`, or a percentage such as "1%" or "12.5%"."""

_WHOLE = re.compile(r"\s*([+-]?[0-9]+)\s*", re.ASCII)
_PERCENTAGE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", re.ASCII)
_LONGEST_NUMBER = 40
LARGEST_COUNT = 2**31 - 1
"""Kubernetes' counts are int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is asked of a Job, in numbers. Every field is None where nothing was asked.

    `completions` is None for a work queue. `max_failed_indexes`, `deadline_seconds` and
    `stop_when_succeeded` may also come from the manifest's own fields.
    """

    completions: int | None
    indexed: bool
    min_succeeded: int | None = None  # None: not given, so the Job's own end decides
    stop_when_succeeded: bool = False
    max_failed_indexes: int | None = None  # the Job ends when *more* have failed
    deadline_seconds: int | None = None  # active time
    pending_seconds: int | None = None  # longest time without capacity

    @property
    def needed(self) -> int | None:
        """How many indexes must succeed: all, where nothing else was asked; None for a work queue."""
        return self.completions if self.min_succeeded is None else self.min_succeeded


def whole_number(value: object) -> int:
    """Return `value` as a number.

    Raises:
        ValueError: It is neither a whole number nor the text of one; the message says why.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        return int(value)
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and (found := _WHOLE.fullmatch(value)):
        return int(found[1])
    raise ValueError("not a whole number")


def is_percentage(value: object) -> bool:
    """Tell whether `value` means a part of the completions."""
    return isinstance(value, str) and value.rstrip().endswith("%")


def floor_of(value: Share, completions: int) -> int:
    """Return how many of `completions` may fail: "1%" of 250 is 2.

    Raises:
        ValueError: `value` is neither a count nor a percentage from 0 to 100.
    """
    share = _read(value)
    return share if isinstance(share, int) else completions * share.numerator // share.denominator


def ceiling_of(value: Share, completions: int) -> int:
    """Return how many of `completions` must succeed: "99%" of 250 is 248.

    Raises:
        ValueError: `value` is neither a count nor a percentage from 0 to 100.
    """
    share = _read(value)
    return share if isinstance(share, int) else -(-completions * share.numerator // share.denominator)


def share_problem(field: str, value: object) -> Problem | None:
    """Say what is wrong with a count or percentage, whatever the completions are."""
    try:
        _read(value)
    except ValueError as error:
        return Problem(field, value, str(error), 'Give a number, or a percentage such as "1%"')
    return None


def count_problem(field: str, value: object, *, least: int = 0, most: int = LARGEST_COUNT) -> Problem | None:
    """Say what is wrong with a number that must lie between `least` and `most`."""
    try:
        number = whole_number(value)
    except ValueError as error:
        return Problem(field, value, str(error), "Give a number")
    if number < least:
        return Problem(field, value, f"below {least}", f"Give {least} or more")
    if number > most:
        return Problem(field, value, f"above {most}", f"Give {most} or less")
    return None


def threshold_problems(
    completions: int,
    *,
    max_failed_indexes: object = None,
    min_succeeded: object = None,
    fuse_field: str = "max_failed_indexes",
) -> list[Problem]:
    """Say how the thresholds contradict the completions or each other.

    Args:
        completions: Of the Job.
        max_failed_indexes: Count or percentage; None where there is no fuse. What can't be read is
            not judged here, see `share_problem`.
        min_succeeded: Count or percentage; None where it was not given. Then any fuse is valid: it
            only ends a lost Job early.
        fuse_field: Where the author wrote the fuse.
    """
    allowed = _resolved(floor_of, max_failed_indexes, completions)
    needed = _resolved(ceiling_of, min_succeeded, completions)
    problems = [
        Problem(
            field, value, f"more than {counted(completions, 'completion')}", f"Give {completions} or less"
        )
        for field, value, number in (
            (fuse_field, max_failed_indexes, allowed),
            ("min_succeeded", min_succeeded, needed),
        )
        if number is not None and number > completions
    ]
    if allowed is None or needed is None or problems or allowed >= completions - needed:
        return problems
    spare = completions - needed
    why = (
        f"the Job would end at the {_ordinal(allowed + 1)} failed index, when "
        f"min_succeeded={min_succeeded!r} ({needed} of {completions}) can still be met"
    )
    mend = (
        f"Allow {counted(spare, 'failed index', 'failed indexes')} or more, "
        f"or ask for {counted(completions - allowed, 'success', 'successes')} or more"
    )
    return [Problem(fuse_field, max_failed_indexes, why, mend)]


def _read(value: object) -> int | Fraction:
    if isinstance(value, str) and is_percentage(value):
        found = _PERCENTAGE.fullmatch(value) if len(value) <= _LONGEST_NUMBER else None
        if found is None:
            raise ValueError("not a percentage")
        share = Fraction(found[1]) / 100
        if share > 1:
            raise ValueError("above 100%")
        return share
    try:
        number = whole_number(value)
    except ValueError:
        raise ValueError("neither a whole number nor a percentage") from None
    if number < 0:
        raise ValueError("below 0")
    return number


def _resolved(rule: Callable[[Any, int], int], value: object, completions: int) -> int | None:
    if value is None:
        return None
    try:
        return rule(value, completions)
    except ValueError:
        return None


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
