"""Which machines a Job runs on: spot that is taken away, on-demand that stays, the way from one to the other.

What a cluster calls its spot machines is read from where the connection is, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.request.budget import count_problem, whole_number

SPOT, ON_DEMAND = "spot", "on_demand"

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_EXAMPLE = 'Write "spot", "on_demand", SpotPolicy(…) or OnDemand(…)'


class Kind(str, Enum):
    """The two kinds of capacity. The values are those of the pods' label, too."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPolicy:
    """Run on spot machines, and what to do when they are taken away or do not come.

    A limit acts when it is exceeded. Losses alone count here, and faults of the program alone in the
    budgets (`retries_per_index`, `max_failed_indexes`). All counts start anew with each Airflow try.

    Args:
        fallback: Move what is left to on-demand machines when a limit is exceeded, when no spot machine
            comes for `pending_seconds`, or in the last try. False: the try fails in these cases.
        max_losses_per_index: How often one index may lose its machine; None: as often as it likes.
        max_loss_rate: Which part of the pods that ended may have ended by a loss, from 0 to 1 or as a
            percentage; judged from the tenth end on. None: any.
        last_try_on_demand: The last of several Airflow tries runs on demand from its start.
        fallback_max_running: Moving kills what runs at that moment: it waits until no more pods than
            this are running. 0: never kill a running pod.
    """

    fallback: bool = True
    max_losses_per_index: int | None = 3
    max_loss_rate: float | str | None = None
    last_try_on_demand: bool = True
    fallback_max_running: int = 0

    @property
    def loss_rate(self) -> Fraction | None:
        """`max_loss_rate` as an exact number."""
        return None if self.max_loss_rate is None else _rate(self.max_loss_rate)

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with it."""
        for name in ("fallback", "last_try_on_demand"):
            value: Any = getattr(self, name)
            if not isinstance(value, bool):
                yield Problem(f"capacity.{name}", value, "neither true nor false", "Write True or False")
        for name in ("max_losses_per_index", "fallback_max_running"):
            value = getattr(self, name)
            if value is None and name == "max_losses_per_index":
                continue
            if problem := count_problem(f"capacity.{name}", value):
                yield problem
        if self.max_loss_rate is not None:
            try:
                rate = _rate(self.max_loss_rate)
            except ValueError:
                rate = Fraction(-1)
            if not 0 <= rate <= 1:
                mend = 'Write a number from 0 to 1, or e.g. "20%"'
                yield Problem("capacity.max_loss_rate", self.max_loss_rate, "no part of a whole", mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemand:
    """Run on on-demand machines.

    Args:
        exclusive: Each pod has a machine without any other pod of ours, in whatever namespace.
        priority_class: Of the pods; None: that of the cluster's profile, if it has one.
    """

    exclusive: bool = True
    priority_class: str | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with it."""
        exclusive: Any = self.exclusive
        priority_class: Any = self.priority_class
        if not isinstance(exclusive, bool):
            yield Problem("capacity.exclusive", exclusive, "neither true nor false", "Write True or False")
        if priority_class is not None and (not isinstance(priority_class, str) or not priority_class.strip()):
            mend = "Name a PriorityClass of the cluster, or leave it out"
            yield Problem("capacity.priority_class", priority_class, "no name", mend)


Choice: TypeAlias = SpotPolicy | OnDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityProfile:
    """How pods get onto machines of one kind. All as Kubernetes spells it.

    Attributes:
        node_selector: Labels that a node must have.
        node_affinity: A NodeAffinity.
        tolerations: Of the taints that such nodes bear.
        priority_class: Of the pods.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: Mapping[str, Any] | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What tells a spot node, and one that is about to be taken away.

    Attributes:
        spot_labels: Label to the values that mean spot.
        reclaim_taints: Keys of taints that announce the end of a node.
    """

    spot_labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reclaim_taints: frozenset[str] = frozenset()

    def is_spot(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels is a spot node."""
        return any(labels.get(label) in values for label, values in self.spot_labels.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """One cluster's profiles; None where nobody has said how to get such machines."""

    spot: CapacityProfile | None = None
    on_demand: CapacityProfile | None = None
    signs: Signs = field(default_factory=Signs)
    origin: str = ""  # where they are from, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What is asked for, together with the cluster's profiles: all that a Job needs."""

    choice: Choice
    profiles: Profiles

    @property
    def kind(self) -> Kind:
        return Kind.SPOT if isinstance(self.choice, SpotPolicy) else Kind.ON_DEMAND

    @property
    def falls_back(self) -> bool:
        return isinstance(self.choice, SpotPolicy) and self.choice.fallback

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the profiles that this cannot do without."""
        if isinstance(self.choice, OnDemand):
            return (ON_DEMAND,)
        return (SPOT, ON_DEMAND) if self.choice.fallback else (SPOT,)

    def missing(self) -> Iterator[Problem]:
        """Yield what the cluster's profiles lack."""
        for name in self.needed:
            if getattr(self.profiles, name) is None:
                said = {SPOT: self.profiles.spot, ON_DEMAND: self.profiles.on_demand}
                known = ", ".join(key for key, profile in said.items() if profile is not None) or "none"
                where = f" ({self.profiles.origin})" if self.profiles.origin else ""
                why = f"the cluster's profile for it is not known; known profiles{where}: {known}"
                mend = (
                    "Name a preset or write the profile in the connection's extra under batchjob.capacity, "
                    "or in [batchjob] defaults; see docs/capacity.md"
                )
                yield Problem("capacity", name, why, mend)


Given: TypeAlias = Capacity | SpotPolicy | OnDemand | str | None
"""What an author may write, or what it was resolved to."""


def choice_of(given: Capacity | SpotPolicy | OnDemand | str) -> Choice | Problem:
    """Read what an author wrote: a choice, or what is wrong with it."""
    value: Any = given
    if isinstance(value, Capacity):
        return value.choice
    if isinstance(value, SpotPolicy | OnDemand):
        return value
    if value == SPOT:
        return SpotPolicy(fallback=False)
    if value == ON_DEMAND:
        return OnDemand(exclusive=False)
    known = f"there is no such capacity; known: {ON_DEMAND}, {SPOT}"
    return Problem("capacity", value, known if isinstance(value, str) else "no capacity", _EXAMPLE)


def capacity_problems(given: Capacity | SpotPolicy | OnDemand | str) -> Iterator[Problem]:
    """Yield what is wrong with `capacity` by itself, whatever the Job is."""
    choice = choice_of(given)
    if isinstance(choice, Problem):
        yield choice
        return
    yield from choice.problems()
    if isinstance(given, Capacity):
        yield from given.missing()


def read_choice(text: str) -> Choice | Problem:
    """Read a choice from text, as the command line has it: "spot", "on_demand", "spot,fallback=true,…".

    Settings after "spot" are those of `SpotPolicy`, after "on_demand" those of `OnDemand`.
    """
    name, *settings = (part.strip() for part in text.split(","))
    if not settings:
        return choice_of(name)
    kinds: dict[str, type[SpotPolicy | OnDemand]] = {SPOT: SpotPolicy, ON_DEMAND: OnDemand}
    if name not in kinds:
        return Problem("capacity", text, f"there is no such capacity; known: {ON_DEMAND}, {SPOT}", _EXAMPLE)
    fields = kinds[name].__dataclass_fields__
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in fields:
            known = ", ".join(fields)
            return Problem(
                "capacity",
                setting,
                f"not one of {known} with a value",
                f"Write e.g. {name},{known.split(',')[0]}=true",
            )
        values[key] = _value(value)
    return kinds[name](**values)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return whole_number(text)
    except ValueError:
        return text


def _rate(value: float | str) -> Fraction:
    """Return a part of a whole; ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("neither a number nor text")  # noqa: TRY004  one error for all that is no part
    text = str(value).strip()
    try:
        return Fraction(text[:-1].strip()) / 100 if text.endswith("%") else Fraction(text)
    except ZeroDivisionError as error:
        raise ValueError(str(error)) from error
