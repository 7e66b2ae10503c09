"""Lines of a followed log: which of them are new after a reconnect.

The API resumes a log from a time in whole seconds, so what came before in that second comes again.
Lines are told apart by their full timestamp and, where that is the same, by their text and number.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_STAMPED = re.compile(
    r"(?P<stamp>(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9})\d*)?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)))(?: (?P<text>.*))?",
    re.DOTALL,
)
# Escape sequences that move the cursor or clear; colours ("m") stay, log views show them.
_NOISE = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")

Moment = tuple[datetime, int]
"""A second in UTC, and the nanoseconds after it: timestamps differ in zone and in digits."""


@dataclass(frozen=True, slots=True)
class StampedLine:
    """A line as the API gives it with `timestamps=true`."""

    stamp: str
    moment: Moment
    text: str


def read_stamped(line: str) -> StampedLine | None:
    """Part a line into its timestamp and its text; None where it has no timestamp."""
    match = _STAMPED.fullmatch(line)
    if match is None:
        return None
    try:
        second = datetime.fromisoformat(match["second"]).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    if match["sign"]:
        offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
        second = second - offset if match["sign"] == "+" else second + offset
    nanoseconds = int((match["fraction"] or "0").ljust(9, "0"))
    return StampedLine(match["stamp"], (second, nanoseconds), match["text"] or "")


def shown(text: str) -> str:
    """Return `text` as a log view can show it: of a progress bar, what stood there last."""
    return _NOISE.sub("", text.rstrip("\r").rsplit("\r", 1)[-1])


class FreshLines:
    """Lets each line of one container's log through once, over any number of connections."""

    def __init__(self) -> None:
        self._newest: StampedLine | None = None
        self._at_newest: Counter[str] = Counter()  # texts let through at the newest moment
        self._resumed_at: Moment | None = None
        self._to_skip: Counter[str] = Counter()
        self._skipped_last = False

    @property
    def since_time(self) -> str | None:
        """The timestamp to resume from; None: from the beginning."""
        return self._newest.stamp if self._newest else None

    def reconnected(self) -> None:
        """Say that a new connection begins, at `since_time`."""
        self._resumed_at = self._newest.moment if self._newest else None
        self._to_skip = self._at_newest.copy()
        self._skipped_last = False

    def fresh(self, line: str) -> str | None:
        """Return the text of `line` if it was not let through before.

        A line without a timestamp goes on from the one before it, and shares its fate.
        """
        stamped = read_stamped(line)
        if stamped is None:
            return None if self._skipped_last else line
        self._skipped_last = self._is_repeated(stamped)
        if self._skipped_last:
            return None
        self._remember(stamped)
        return stamped.text

    def _is_repeated(self, line: StampedLine) -> bool:
        if self._resumed_at is None or line.moment > self._resumed_at:
            return False
        if line.moment < self._resumed_at:
            return True
        if self._to_skip[line.text] <= 0:
            return False
        self._to_skip[line.text] -= 1
        return True

    def _remember(self, line: StampedLine) -> None:
        if self._newest is None or line.moment > self._newest.moment:
            self._newest, self._at_newest = line, Counter()
        if line.moment == self._newest.moment:
            self._at_newest[line.text] += 1
