"""What Kubernetes would refuse about a container's requests and limits.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateContainerResourceRequirements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.quantity import parse_quantity

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_OWN_DOMAIN = "kubernetes.io/"


def resource_problems(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what is wrong with `container`'s resources.

    Args:
        container: In the right shape.
        path: Of the container, as its author sees it.
    """
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    who = f"container {container.get('name')!r}"
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount_problems(f"{path}.resources.{group}.{name}", str(name), amount, who)
    for name, request in requests.items():
        field = f"{path}.resources.requests.{name}"
        if limits.get(name) is not None:
            yield from _comparison(field, str(name), request, limits[name], who)
        elif _cannot_be_shared(str(name)):
            why = f"{who} requests it without a limit, and it can't be shared"
            yield Problem(f"{path}.resources.limits.{name}", None, why, f"Give the same limit: {request}")


def _amount_problems(field: str, name: str, amount: Any, who: str) -> Iterator[Problem]:
    try:
        value = parse_quantity(amount)
    except ValueError as error:
        why, _, mend = str(error).partition("; ")
        yield Problem(
            field, amount, f"{why} ({who})", mend[:1].upper() + mend[1:] if mend else "Write e.g. 2Gi"
        )
        return
    if value < 0:
        yield Problem(field, amount, f"below 0 ({who})", "Give 0 or more")
    elif _is_counted(name) and value != value.to_integral_value():
        yield Problem(field, amount, f"only whole ones can be had ({who})", "Give a whole number")
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        why = f"no resource of Kubernetes, and without a domain not one of a device either ({who})"
        yield Problem(field, amount, why, f"Use {', '.join(_STANDARD)}, or e.g. nvidia.com/gpu")


def _comparison(field: str, name: str, request: Any, limit: Any, who: str) -> Iterator[Problem]:
    asked, most = _value(request), _value(limit)
    if asked is None or most is None:
        return
    if _cannot_be_shared(name) and asked != most:
        why = f"{who} requests another amount than its limit {limit}, and it can't be shared"
        yield Problem(field, request, why, "Give the same amount for both")
    elif asked > most:
        why = f"{who} requests more {name} than its limit {limit}"
        yield Problem(field, request, why, "Lower the request or raise the limit; a machine= replaces both")


def _value(amount: Any) -> Decimal | None:
    try:
        return parse_quantity(amount)
    except ValueError:
        return None


def _is_counted(name: str) -> bool:
    domain, slash, _ = name.rpartition("/")
    return bool(slash) and not f"{domain}/".endswith(_OWN_DOMAIN)


def _cannot_be_shared(name: str) -> bool:
    return _is_counted(name) or name.startswith(_HUGE_PAGES)
