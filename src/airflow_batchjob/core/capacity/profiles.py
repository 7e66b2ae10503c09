"""The names that clusters give to their spot machines: presets by provider, and profiles of one's own.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms,
https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html,
https://karpenter.sh/docs/concepts/nodepools/, https://learn.microsoft.com/azure/aks/spot-node-pool
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_batchjob.core.capacity.capacity import ON_DEMAND, SPOT, CapacityProfile, Profiles, Signs
from airflow_batchjob.core.errors import Problem, SpecError

OUR_LABEL: Final = "airflow-batchjob/capacity"
"""Label of nodes for the preset `label`: the local cluster's nodes bear it, and so do pods of ours."""

_FIELD = "capacity"
_KEYS = ("preset", "label", SPOT, ON_DEMAND, "spot_labels", "reclaim_taints")
_PROFILE_KEYS = ("node_selector", "node_affinity", "tolerations", "priority_class")


def _none_of(label: str, *values: str) -> Mapping[str, Any]:
    # NotIn also takes nodes without the label, which is how these providers mark what is not spot.
    expression = {"key": label, "operator": "NotIn", "values": list(values)}
    terms = [{"matchExpressions": [expression]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _tolerated(label: str, value: str) -> Mapping[str, Any]:
    return {"key": label, "operator": "Equal", "value": value, "effect": "NoSchedule"}


def _labelled(label: str, spot: str, on_demand: str) -> Profiles:
    return Profiles(
        spot=CapacityProfile(node_selector={label: spot}),
        on_demand=CapacityProfile(node_selector={label: on_demand}),
    )


def _set_apart(label: str, spot: str) -> Profiles:
    return Profiles(
        spot=CapacityProfile(node_selector={label: spot}, tolerations=(_tolerated(label, spot),)),
        on_demand=CapacityProfile(node_affinity=_none_of(label, spot)),
    )


PRESETS: Final[Mapping[str, Profiles]] = {
    "aks": _set_apart("kubernetes.azure.com/scalesetpriority", "spot"),
    "eks": _labelled("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
    "gke": _set_apart("cloud.google.com/gke-spot", "true"),
    "karpenter": _labelled("karpenter.sh/capacity-type", "spot", "on-demand"),
    "label": _labelled(OUR_LABEL, "spot", "on-demand"),
}

KNOWN_SIGNS: Final = Signs(
    spot_labels={
        "cloud.google.com/gke-spot": frozenset({"true"}),
        "cloud.google.com/gke-preemptible": frozenset({"true"}),
        "karpenter.sh/capacity-type": frozenset({"spot"}),
        "kubernetes.azure.com/scalesetpriority": frozenset({"spot"}),
        "eks.amazonaws.com/capacityType": frozenset({"SPOT"}),
        OUR_LABEL: frozenset({"spot"}),
    },
    reclaim_taints=frozenset(
        {
            "cloud.google.com/impending-node-termination",
            "aws-node-termination-handler/spot-itn",
            "karpenter.sh/disrupted",  # a consolidation, too: the machine goes all the same
            "ToBeDeletedByClusterAutoscaler",
            "airflow-batchjob/reclaim",  # the local cluster's
        }
    ),
)
"""Of all providers at once: a label that a cluster does not use matches nothing there."""


def read_profiles(found: Any, origin: str = "") -> Profiles:
    """Read what stands under `capacity`: the name of a preset, or a mapping.

    Args:
        found: `"gke"`, or `{"preset": …, "label": …, "spot": {…}, "on_demand": {…}, "spot_labels": {…},
            "reclaim_taints": […]}`; a profile given replaces the preset's. None: no profile is known.
        origin: Where it is from, for messages.

    Raises:
        SpecError: With every problem; an unknown preset's lists the known ones.
    """
    given: Any = {"preset": found} if isinstance(found, str) else found
    if given is None:
        return Profiles(signs=KNOWN_SIGNS, origin=origin)
    if problems := list(_problems(given)):
        raise SpecError(*problems)
    preset = given.get("preset")
    start = PRESETS[preset] if preset else Profiles()
    if label := given.get("label"):
        start = _labelled(label, "spot", "on-demand")
    return Profiles(
        spot=start.spot if given.get(SPOT) is None else _profile(given[SPOT]),
        on_demand=start.on_demand if given.get(ON_DEMAND) is None else _profile(given[ON_DEMAND]),
        signs=_signs(given),
        origin=origin,
    )


def nobodys_profiles() -> Profiles:
    """Return profiles that place nothing, for what is said before a cluster is known."""
    return Profiles(spot=CapacityProfile(), on_demand=CapacityProfile(), signs=KNOWN_SIGNS)


def _profile(given: Mapping[str, Any]) -> CapacityProfile:
    return CapacityProfile(
        node_selector={str(key): str(value) for key, value in (given.get("node_selector") or {}).items()},
        node_affinity=given.get("node_affinity"),
        tolerations=tuple(given.get("tolerations") or ()),
        priority_class=given.get("priority_class"),
    )


def _signs(given: Mapping[str, Any]) -> Signs:
    labels = {
        label: frozenset(values if isinstance(values, list) else [values])
        for label, values in (given.get("spot_labels") or {}).items()
    }
    if label := given.get("label"):
        labels.setdefault(label, frozenset({"spot"}))
    return Signs(
        spot_labels={**KNOWN_SIGNS.spot_labels, **labels},
        reclaim_taints=KNOWN_SIGNS.reclaim_taints | set(given.get("reclaim_taints") or ()),
    )


def _problems(given: Any) -> Iterator[Problem]:
    if not isinstance(given, Mapping):
        yield Problem(
            _FIELD, given, "neither the name of a preset nor a mapping", f"Use {', '.join(PRESETS)}"
        )
        return
    for key in sorted(set(given) - set(_KEYS), key=str):
        yield Problem(f"{_FIELD}.{key}", "…", "there is no such field", f"Use {', '.join(_KEYS)}")
    preset, label = given.get("preset"), given.get("label")
    if preset is not None and preset not in PRESETS:
        known = ", ".join(PRESETS)
        yield Problem(
            f"{_FIELD}.preset", preset, f"there is no such preset; known: {known}", "Use one of these"
        )
    if label is not None and (not isinstance(label, str) or preset not in (None, "label")):
        yield Problem(f"{_FIELD}.label", label, "only the preset label has a label", "Leave it out")
    for name in (SPOT, ON_DEMAND):
        if given.get(name) is not None:
            yield from _profile_problems(f"{_FIELD}.{name}", given[name])
    yield from _sign_problems(given)


def _profile_problems(field: str, given: Any) -> Iterator[Problem]:
    if not isinstance(given, Mapping):
        yield Problem(field, given, "not a mapping", f"Use {', '.join(_PROFILE_KEYS)}")
        return
    for key in sorted(set(given) - set(_PROFILE_KEYS), key=str):
        yield Problem(f"{field}.{key}", "…", "there is no such field", f"Use {', '.join(_PROFILE_KEYS)}")
    for key, kind in (("node_selector", Mapping), ("node_affinity", Mapping), ("tolerations", list)):
        value: Any = given.get(key)
        if value is not None and not isinstance(value, kind):
            wanted = "a list" if kind is list else "a mapping"
            yield Problem(f"{field}.{key}", value, f"not {wanted}", "Write it as Kubernetes spells it")
    for number, toleration in enumerate(_list(given.get("tolerations"))):
        if not isinstance(toleration, Mapping):
            mend = "Write key, operator, value and effect"
            yield Problem(f"{field}.tolerations[{number}]", toleration, "not a mapping", mend)
    priority_class = given.get("priority_class")
    if priority_class is not None and not isinstance(priority_class, str):
        yield Problem(f"{field}.priority_class", priority_class, "not a name", "Name a PriorityClass")


def _sign_problems(given: Mapping[str, Any]) -> Iterator[Problem]:
    labels, taints = given.get("spot_labels"), given.get("reclaim_taints")
    if labels is not None and not isinstance(labels, Mapping):
        mend = 'Write e.g. {"example.com/life": "spot"}'
        yield Problem(f"{_FIELD}.spot_labels", labels, "not a mapping", mend)
    if taints is not None and (
        not isinstance(taints, list) or not all(isinstance(taint, str) for taint in taints)
    ):
        yield Problem(f"{_FIELD}.reclaim_taints", taints, "not a list of keys", "Write the keys of taints")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
