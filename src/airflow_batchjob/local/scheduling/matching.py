"""Selectors, affinity, taints: whether labels and tolerations fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]
Labels = Mapping[str, str]


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Return whether some toleration covers a taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    key = toleration.get("key")
    if key and key != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def fits_node_selector(spec: Object, labels: Labels, name: str) -> bool:
    """Return whether a node meets a pod's nodeSelector and required node affinity."""
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    # Terms are alternatives; an empty one matches nothing.
    return any(fits_node_term(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def preference(spec: Object, labels: Labels, name: str) -> int:
    """Return the sum of the weights of the preferred node affinity that a node meets."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return sum(
        int(one["weight"])
        for one in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if fits_node_term(one["preference"], labels, name)
    )


def fits_node_term(term: Object, labels: Labels, name: str) -> bool:
    """Return whether a node meets all of one term."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(fits_expression(one, labels) for one in expressions) and all(
        fits_expression(one, {"metadata.name": name}) for one in fields
    )


def fits_label_selector(selector: Object | None, labels: Labels) -> bool:
    """Return whether labels meet a label selector; none at all meets nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(fits_expression(one, labels) for one in selector.get("matchExpressions") or ())


def fits_expression(expression: Object, labels: Labels) -> bool:
    """Return whether labels meet one requirement."""
    key, values = expression["key"], expression.get("values") or ()
    value = labels.get(key)
    operator = expression["operator"]
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if value is None or not value.lstrip("-").isdecimal() or not values:  # Gt and Lt compare whole numbers
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
