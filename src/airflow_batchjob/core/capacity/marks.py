"""What a Job's annotations say of its capacity: the plan, what was lost, what is under way, what was done.

Each is small, whole in itself and read by whoever comes later, in whatever process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from airflow_batchjob.core.capacity.capacity import Kind, Signs
from airflow_batchjob.core.capacity.profiles import KNOWN_SIGNS
from airflow_batchjob.core.digits import digits
from airflow_batchjob.core.identity.marks import PREFIX, UNDER_WAY
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job

CAPACITY = PREFIX + "capacity"
LOSSES = PREFIX + "losses"
FELL_BACK = PREFIX + "fell-back"

FALL_BACK = "fall-back"
"""Under way: a Job is suspended, to be moved to other machines."""
FOLLOW_UP = "follow-up"
"""Under way: a Job was stopped, and a follow-up Job goes on with what is left."""

_OURS = frozenset({FALL_BACK, FOLLOW_UP})
_MOST_INDEXES = 1_000_000  # no Job has more; anyone may have edited the text
# As `str` writes a fraction.
_RATE = re.compile(r"([0-9]{1,40})(?:/([0-9]{1,40}))?")

MarkT = TypeVar("MarkT")


class Why(str, Enum):
    """What moved a Job from spot to on-demand, or ended it where it may not move."""

    LOSSES_OF_AN_INDEX = "losses of an index"
    LOSS_RATE = "loss rate"
    STOCK_OUT = "stock-out"
    LAST_TRY = "last try"


class _Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    def to_text(self) -> str:
        """Return the annotation's value."""
        return msgspec.json.encode(self).decode()


class Plan(_Mark, frozen=True):
    """What was asked for, and how to get there: written at submission, brought up to date at each attach.

    Attributes:
        now: Where the pods go.
        fallback: They may go to on-demand machines.
        max_losses_per_index: See `SpotPolicy`; None: no limit.
        max_loss_rate: The same, as an exact fraction in text.
        last_try_on_demand: See `SpotPolicy`.
        max_running: `fallback_max_running`.
        on_demand: The pod spec's placement after falling back: `core.placement.FIELDS`.
        in_place: A suspended Job lets itself be moved there; else a follow-up Job must take over.
        spot_labels: Labels of spot nodes that the cluster has besides the known ones.
        reclaim_taints: The same of taints.
    """

    now: Kind
    fallback: bool = False
    max_losses_per_index: int | None = None
    max_loss_rate: str | None = None
    last_try_on_demand: bool = False
    max_running: int = 0
    on_demand: dict[str, Any] = msgspec.field(default_factory=dict)
    in_place: bool = True
    spot_labels: dict[str, list[str]] = {}
    reclaim_taints: list[str] = []

    @property
    def signs(self) -> Signs:
        """What tells a spot node here, and one that is about to go."""
        labels = {label: frozenset(values) for label, values in self.spot_labels.items()}
        return Signs(
            spot_labels={**KNOWN_SIGNS.spot_labels, **labels},
            reclaim_taints=KNOWN_SIGNS.reclaim_taints | set(self.reclaim_taints),
        )

    @property
    def rate(self) -> Fraction | None:
        """`max_loss_rate` as a number; None where it is no part of a whole."""
        found = _RATE.fullmatch(self.max_loss_rate or "")
        parts, whole = (int(found[1]), int(found[2] or 1)) if found else (0, 0)
        return Fraction(parts, whole) if 0 < whole >= parts else None

    @classmethod
    def from_text(cls, text: str) -> Plan | None:
        """Read what `to_text` wrote; None where it can't be read."""
        return _decoded(text, cls)

    def moved(self) -> Plan:
        """Return the plan of a Job that is on demand now."""
        return msgspec.structs.replace(self, now=Kind.ON_DEMAND)


class LossMark(_Mark, frozen=True):
    """The losses of one try, as far as they were seen.

    Kubernetes starts its own counts again at 0 after each suspension: `before` holds what was counted
    until then, `counts` all of them.

    Attributes:
        holder: Whose try it is: another one starts at 0.
        counts: How often an index was lost, to the indexes as range text.
        before: The same, up to the start that `since` tells.
        skipped: Of what Kubernetes counts now, what an earlier try or an earlier start has had.
        pressure: Of `counts`, those that the node's memory pressure caused.
        since: The Job's `startTime` in epoch seconds that Kubernetes' counts belong to.
        seconds: For how long the lost pods of an index had run, by index; the longest, where many were.
        lost_seconds: For how long lost pods had run, all together.
    """

    holder: str
    counts: dict[str, str] = {}
    before: dict[str, str] = {}
    skipped: dict[str, str] = {}
    pressure: dict[str, str] = {}
    since: float = 0.0
    seconds: dict[str, float] = {}
    lost_seconds: float = 0.0

    @property
    def total(self) -> int:
        """How many pods were lost."""
        return sum(from_ranges(self.counts).values())

    @property
    def seconds_by_index(self) -> dict[int, float]:
        """`seconds` by the indexes themselves; what is no index counts as absent."""
        by_index = ((digits(index), ran) for index, ran in self.seconds.items())
        return {index: ran for index, ran in by_index if index is not None}

    def of_a_new_job(self) -> LossMark:
        """Return the mark of a Job that goes on with the same try: Kubernetes counts nothing there yet."""
        return msgspec.structs.replace(self, before=self.counts, skipped={}, since=0.0)


class UnderWay(_Mark, frozen=True):
    """A Job that was suspended in order to fall back, and is not there yet.

    Attributes:
        doing: `FALL_BACK` or `FOLLOW_UP`; another word is someone else's business.
        why: The reason.
        words: The same, for people.
        at: Epoch seconds.
        killed: How many pods were running, which the suspension kills.
    """

    doing: str
    why: Why
    words: str = ""
    at: float = 0.0
    killed: int = 0


class FellBack(_Mark, frozen=True):
    """A Job that has fallen back; as `UnderWay`, and `at` is when it went on."""

    why: Why
    words: str = ""
    at: float = 0.0
    killed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityMarks:
    """All of a Job's; None where there is none, or none that can be read."""

    plan: Plan | None = None
    losses: LossMark | None = None
    under_way: UnderWay | None = None
    fell_back: FellBack | None = None

    @property
    def is_followed_up(self) -> bool:
        """True where it was stopped because a follow-up Job goes on."""
        return self.under_way is not None and self.under_way.doing == FOLLOW_UP


def read_capacity(job: Job) -> CapacityMarks:
    """Read the marks on `job`."""
    texts = job.metadata.annotations
    under_way = _decoded(texts.get(UNDER_WAY), UnderWay)
    return CapacityMarks(
        plan=_decoded(texts.get(CAPACITY), Plan),
        losses=_decoded(texts.get(LOSSES), LossMark),
        under_way=under_way if under_way is not None and under_way.doing in _OURS else None,
        fell_back=_decoded(texts.get(FELL_BACK), FellBack),
    )


def to_ranges(counts: dict[int, int]) -> dict[str, str]:
    """Return counts by index as indexes by count, the largest count first: {"2": "7", "1": "0-3"}."""
    by_count: dict[int, list[int]] = {}
    for index, count in counts.items():
        if count > 0:
            by_count.setdefault(count, []).append(index)
    return {str(count): str(IndexSet.of(by_count[count])) for count in sorted(by_count, reverse=True)}


def from_ranges(ranges: dict[str, str]) -> dict[int, int]:
    """Return what `to_ranges` was given; what makes no sense counts as absent."""
    counts: dict[int, int] = {}
    for count, text in ranges.items():
        indexes = IndexSet.parse(text)
        number = digits(count)
        if number is not None and indexes.count <= _MOST_INDEXES:
            counts |= dict.fromkeys(indexes, number)
    return counts


def _decoded(text: str | None, kind: type[MarkT]) -> MarkT | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None
