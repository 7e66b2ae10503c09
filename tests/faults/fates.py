"""What happens to a request: a pure function of a seed, of what is asked, and of how often it was asked.

Nothing else goes in, no clock and no order among different Jobs: whoever has the seed has the schedule.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Fault(str, Enum):
    """What is done to one request or one watch."""

    NONE = "nothing"
    TOO_MANY = "429"
    TOO_MANY_WAIT = "429 with Retry-After in seconds"
    TOO_MANY_DATE = "429 with Retry-After as a date"
    TOO_MANY_ODD = "429 with a Retry-After that says nothing"
    ERROR_500 = "500"
    ERROR_502 = "502, a page of some proxy"
    ERROR_503 = "503 with Retry-After"
    ERROR_504 = "504"
    ERROR_AFTER = "504 after the server acted"
    RESET_BEFORE = "connection reset before the server acted"
    RESET_AFTER = "connection reset after the server acted"
    HALF = "half an answer"
    SLOW = "a slow answer, in pieces"
    EXPIRED_TOKEN = "401 that a reload mends"
    GONE_ANSWER = "410 as an answer"
    GONE_EVENT = "410 as an event"
    WATCH_ENDS = "a watch that ends at once"
    WATCH_SILENT = "a watch that falls silent"
    WATCH_RESET = "a watch that is reset"
    WATCH_HALF = "a watch that ends in the middle of a line"
    CUT_BEFORE = "whoever asks is killed before the server acts"
    CUT_AFTER = "whoever asks is killed after the server acted"


ONCE: Mapping[Fault, int] = MappingProxyType(
    {
        Fault.TOO_MANY: 2,
        Fault.TOO_MANY_WAIT: 1,
        Fault.TOO_MANY_DATE: 1,
        Fault.TOO_MANY_ODD: 1,
        Fault.ERROR_500: 2,
        Fault.ERROR_502: 2,
        Fault.ERROR_503: 1,
        Fault.ERROR_504: 1,
        Fault.ERROR_AFTER: 3,
        Fault.RESET_BEFORE: 3,
        Fault.RESET_AFTER: 3,
        Fault.HALF: 2,
        Fault.SLOW: 2,
        Fault.EXPIRED_TOKEN: 2,
        Fault.CUT_BEFORE: 2,
        Fault.CUT_AFTER: 4,
    }
)
"""How often each fault of a single request comes, against the others."""

STREAMS: Mapping[Fault, int] = MappingProxyType(
    {
        Fault.TOO_MANY_WAIT: 1,
        Fault.ERROR_503: 1,
        Fault.RESET_BEFORE: 1,
        Fault.EXPIRED_TOKEN: 1,
        Fault.GONE_ANSWER: 1,
        Fault.GONE_EVENT: 2,
        Fault.WATCH_ENDS: 2,
        Fault.WATCH_SILENT: 2,
        Fault.WATCH_RESET: 2,
        Fault.WATCH_HALF: 2,
    }
)
"""The same for watches."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as far as its fate depends on it."""

    method: str
    subject: str  # which object or list, in words that are the same in every run
    is_watch: bool = False


@dataclass(kw_only=True)
class Fates:
    """Gives each request its fate.

    Args:
        seed: Of everything.
        share: Of requests that something happens to, from 0 to 1.
        stream_share: The same for watches.
        once: Weights of the faults of single requests.
        streams: Weights of the faults of watches.
    """

    seed: int
    share: float = 0.2
    stream_share: float = 0.6
    once: Mapping[Fault, int] = field(default_factory=lambda: ONCE)
    streams: Mapping[Fault, int] = field(default_factory=lambda: STREAMS)
    told: Counter[Ask] = field(default_factory=Counter)

    def next(self, ask: Ask) -> Fault:
        """Return what happens to this request, and count it."""
        self.told[ask] += 1
        return self.fate(ask, self.told[ask])

    def fate(self, ask: Ask, number: int) -> Fault:
        """Return what happens to the request that is the `number`-th of its kind, from 1."""
        rng = random.Random(f"{self.seed} {ask.method} {ask.subject} {ask.is_watch} {number}")
        if rng.random() >= (self.stream_share if ask.is_watch else self.share):
            return Fault.NONE
        weights = self.streams if ask.is_watch else self.once
        return rng.choices(list(weights), list(weights.values()))[0]


_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_POD = re.compile(r"(/pods/.+-\d+)-[a-z0-9]{5}\b")


def ask_of(method: str, path: str, query: Mapping[str, str], names: Mapping[str, str]) -> Ask:
    """Return the part of a request that decides its fate.

    Args:
        method: Of HTTP.
        path: Of the URL.
        query: Of the URL.
        names: Of Jobs, by uid: uids differ from run to run.
    """
    selector = query.get("labelSelector", "") + query.get("fieldSelector", "")
    named = _UID.sub(lambda found: names.get(found[0], "?"), selector)
    pod = _POD.sub(r"\1", path)
    return Ask(method, f"{pod} {named}".strip(), query.get("watch") in ("1", "true"))
