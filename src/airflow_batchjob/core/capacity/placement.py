"""A capacity profile laid over a pod, and what of it a suspended Job lets one change.

Source: KEP-2926 (scheduling directives of suspended Jobs): node selector, node affinity, tolerations
and the template's labels; never the priority class, pod affinity or pod anti-affinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_batchjob.core.capacity.capacity import Capacity, CapacityProfile, Kind, OnDemand
from airflow_batchjob.core.capacity.profiles import OUR_LABEL
from airflow_batchjob.core.identity.marks import MANAGED_BY, OURS

FIELDS: Final = ("nodeSelector", "tolerations", "affinity", "priorityClassName")
"""Of a pod spec: all that decides where a pod runs, as far as a profile has to do with it."""

CAPACITY_LABEL: Final = OUR_LABEL
"""Label of pods: which kind of capacity they were sent to."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HOST = "kubernetes.io/hostname"


def placed(pod: Mapping[str, Any], capacity: Capacity, kind: Kind) -> dict[str, Any]:
    """Return the pod spec's `FIELDS` under the profile of that kind; absent where they say nothing.

    What the pod has of its own stays: selectors meet, tolerations are added, affinities must hold both.

    Args:
        pod: A pod spec, without any profile.
        capacity: With the cluster's profiles; a missing one changes nothing.
        kind: Which profile.
    """
    profile = capacity.profiles.spot if kind is Kind.SPOT else capacity.profiles.on_demand
    profile = profile or CapacityProfile()
    choice = capacity.choice
    exclusive = kind is Kind.ON_DEMAND and isinstance(choice, OnDemand) and choice.exclusive
    own_class = choice.priority_class if isinstance(choice, OnDemand) else None
    values = {
        "nodeSelector": {**(pod.get("nodeSelector") or {}), **profile.node_selector},
        "tolerations": _joined(pod.get("tolerations") or [], profile.tolerations),
        "affinity": _affinity(pod.get("affinity") or {}, profile.node_affinity, exclusive=exclusive),
        "priorityClassName": own_class or profile.priority_class or pod.get("priorityClassName"),
    }
    return {field: value for field, value in values.items() if value}


def selector_conflicts(pod: Mapping[str, Any], profile: CapacityProfile | None) -> dict[str, tuple[str, str]]:
    """Return labels that pod and profile want to have different values: theirs, the profile's."""
    own = pod.get("nodeSelector") or {}
    wanted = profile.node_selector if profile is not None else {}
    return {key: (own[key], wanted[key]) for key in wanted if key in own and own[key] != wanted[key]}


def fits_in_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether a suspended Job may be moved from one placement to the other.

    Args:
        one: `FIELDS` of a pod spec.
        other: The same.
    """
    return _fixed(one) == _fixed(other)


def _fixed(fields: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    affinity = fields.get("affinity") or {}
    return (
        fields.get("priorityClassName") or None,
        affinity.get("podAffinity") or None,
        affinity.get("podAntiAffinity") or None,
    )


def _joined(own: list[Any], added: tuple[Mapping[str, Any], ...]) -> list[Any]:
    return [*own, *(dict(one) for one in added if dict(one) not in own)]


def _affinity(own: Mapping[str, Any], node: Mapping[str, Any] | None, *, exclusive: bool) -> dict[str, Any]:
    affinity = dict(own)
    if node:
        affinity["nodeAffinity"] = _both(own.get("nodeAffinity") or {}, node)
    if exclusive:
        anti = dict(own.get("podAntiAffinity") or {})
        affinity["podAntiAffinity"] = {**anti, _REQUIRED: [*(anti.get(_REQUIRED) or []), _any_of_ours()]}
    return affinity


def _any_of_ours() -> dict[str, Any]:
    return {
        "labelSelector": {"matchLabels": {MANAGED_BY: OURS}},
        "namespaceSelector": {},  # all of them
        "topologyKey": _HOST,
    }


def _both(own: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return a NodeAffinity that holds where both do: terms are alternatives, so each meets each."""
    mine, theirs = _terms(own), _terms(profile)
    both = [_merged(one, other) for one in mine for other in theirs] if mine and theirs else mine or theirs
    preferred = [*(own.get(_PREFERRED) or []), *(profile.get(_PREFERRED) or [])]
    return {
        **({_REQUIRED: {"nodeSelectorTerms": both}} if both else {}),
        **({_PREFERRED: preferred} if preferred else {}),
    }


def _terms(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [])


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: [*(one.get(key) or []), *(other.get(key) or [])]
        for key in ("matchExpressions", "matchFields")
        if one.get(key) or other.get(key)
    }
