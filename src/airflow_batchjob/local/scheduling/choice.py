"""Which node a pod goes to, or why to none: in the words of the Kubernetes scheduler. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_batchjob.local.scheduling.matching import (
    fits_label_selector,
    fits_node_selector,
    preference,
    tolerates,
)
from airflow_batchjob.local.scheduling.requests import Amounts

Object = dict[str, Any]

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_HOLDING_EFFECTS = ("NoSchedule", "NoExecute")
NO_SUCH_RULE = (
    "pod affinity and topology spread constraints that must hold aren't supported by the local cluster"
)


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod on a node, as far as others care."""

    namespace: str
    labels: Mapping[str, str]
    keeps_away: tuple[Object, ...]
    """Its required pod anti-affinity."""


@dataclass(slots=True)
class Room:
    """One node and what is taken of it. The scheduler's account, changed in place by it alone."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    unschedulable: bool
    allocatable: Amounts
    used: Amounts = field(default_factory=dict)
    residents: dict[str, Resident] = field(default_factory=dict)
    """By uid."""
    wary: dict[str, Resident] = field(default_factory=dict)
    """Those residents that keep others away: few, while there may be thousands of residents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A pod to place."""

    namespace: str
    labels: Mapping[str, str]
    spec: Object
    requests: Amounts

    @property
    def keeps_away(self) -> tuple[Object, ...]:
        """Its required pod anti-affinity."""
        return required_anti_affinity(self.spec)


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes there."""

    node: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The pod goes nowhere for now."""

    message: str


def choose(wish: Wish, rooms: Sequence[Room]) -> Placed | Unplaced:
    """Return the best node for a pod, or why there is none."""
    if not rooms:
        return Unplaced("no nodes available to schedule pods")
    if _asks_for_more(wish.spec):
        return Unplaced(f"0/{len(rooms)} nodes are available: {len(rooms)} {NO_SUCH_RULE}.")
    reasons: list[list[str]] = []
    best: tuple[tuple[float, ...], str] | None = None
    for room in rooms:
        why = _obstacles(wish, room, rooms)
        if why:
            reasons.append(why)
            continue
        score = _score(wish, room)
        if best is None or score > best[0]:
            best = (score, room.name)
    return Placed(best[1]) if best is not None else Unplaced(_message(len(rooms), reasons))


def required_anti_affinity(spec: Object) -> tuple[Object, ...]:
    """Return the terms of a pod's required anti-affinity."""
    affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return tuple(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _asks_for_more(spec: Object) -> bool:
    affinity = (spec.get("affinity") or {}).get("podAffinity") or {}
    spread = spec.get("topologySpreadConstraints") or ()
    return bool(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")) or any(
        one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spread
    )


def _obstacles(wish: Wish, room: Room, rooms: Sequence[Room]) -> list[str]:
    """Return why a pod cannot go to a node: of the first kind of reason that holds."""
    spec = wish.spec
    tolerations = spec.get("tolerations") or ()
    if room.unschedulable and not tolerates(tolerations, _UNSCHEDULABLE_TAINT):
        return ["node(s) were unschedulable"]
    for taint in room.taints:
        if taint["effect"] in _HOLDING_EFFECTS and not tolerates(tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    if not fits_node_selector(spec, room.labels, room.name):
        return ["node(s) didn't match Pod's node affinity/selector"]
    short = [
        "Too many pods" if name == "pods" else f"Insufficient {name}"
        for name, amount in wish.requests.items()
        if amount > 0 and room.used.get(name, 0) + amount > room.allocatable.get(name, 0)
    ]
    return short or _neighbours(wish, room, rooms)


def _neighbours(wish: Wish, room: Room, rooms: Sequence[Room]) -> list[str]:
    for term in wish.keeps_away:
        for other in _domain(term["topologyKey"], room, rooms):
            if any(_meant(term, wish.namespace, one) for one in other.residents.values()):
                return ["node(s) didn't match pod anti-affinity rules"]
    me = Resident(wish.namespace, wish.labels, ())
    for other in rooms:
        for one in other.wary.values():
            for term in one.keeps_away:
                same = other in _domain(term["topologyKey"], room, rooms)
                if same and _meant(term, one.namespace, me):
                    return ["node(s) didn't satisfy existing pods anti-affinity rules"]
    return []


def _domain(key: str, room: Room, rooms: Sequence[Room]) -> list[Room]:
    value = room.labels.get(key)
    return [other for other in rooms if value is not None and other.labels.get(key) == value]


def _meant(term: Object, namespace: str, other: Resident) -> bool:
    namespaces = term.get("namespaces") or [namespace]
    if term.get("namespaceSelector") is None and other.namespace not in namespaces:
        return False
    return fits_label_selector(term.get("labelSelector"), other.labels)


def _score(wish: Wish, room: Room) -> tuple[float, ...]:
    tolerations = wish.spec.get("tolerations") or ()
    avoided = sum(t["effect"] == "PreferNoSchedule" and not tolerates(tolerations, t) for t in room.taints)
    free = [
        1 - (room.used.get(name, 0) + wish.requests.get(name, 0)) / room.allocatable[name]
        for name in ("cpu", "memory", "pods")
        if room.allocatable.get(name)
    ]
    return (preference(wish.spec, room.labels, room.name), -avoided, min(free, default=0.0))


def _message(nodes: int, reasons: Sequence[Sequence[str]]) -> str:
    counts = Counter(why for whys in reasons for why in whys)
    causes = ", ".join(sorted(f"{count} {why}" for why, count in counts.items()))
    # There is no preemption here, and the words are those of a cluster where it finds nobody to evict.
    victims = sum(why.startswith(("Insufficient", "Too many")) for whys in reasons for why in whys[:1])
    help_ = Counter({"No preemption victims found for incoming pod": victims})
    help_["Preemption is not helpful for scheduling"] = nodes - victims
    preemption = ", ".join(sorted(f"{count} {why}" for why, count in help_.items() if count))
    return (
        f"0/{nodes} nodes are available: {causes}. preemption: 0/{nodes} nodes are available: {preemption}."
    )
