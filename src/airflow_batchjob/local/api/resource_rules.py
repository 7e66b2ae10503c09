"""What Kubernetes refuses in a container's requests and limits."""

from __future__ import annotations

import re
from decimal import Decimal

from airflow_batchjob.local.api.names import qualified_name_faults
from airflow_batchjob.local.api.quantity import amount
from airflow_batchjob.local.api.status import Problems, invalid, required
from airflow_batchjob.local.store import Object

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def resource_problems(resources: Object, path: str) -> Problems:
    """Return what is wrong with ``resources`` at `path`."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    problems: Problems = []
    for which, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            problems += _quantity_problems(name, quantity, f"{path}.{which}")
    for name, quantity in requests.items():
        problems += _pair_problems(name, quantity, limits.get(name), path)
    return problems


def _quantity_problems(name: str, quantity: str, path: str) -> Problems:
    problems: Problems = []
    field = f"{path}[{name}]"
    faults = qualified_name_faults(name)
    problems += [invalid(field, name, fault) for fault in faults]
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        problems.append(invalid(field, name, "must be a standard resource for containers"))
    value = amount(quantity)
    if value < 0:
        problems.append(invalid(field, quantity, "must be greater than or equal to 0"))
    elif _is_extended(name) and value != int(value):
        problems.append(invalid(field, quantity, "must be an integer"))
    return problems


def _pair_problems(name: str, request: str, limit: str | None, path: str) -> Problems:
    exclusive = not _may_be_overcommitted(name)
    if limit is None:
        if not exclusive:
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    asked, allowed = amount(request), amount(limit)
    if exclusive and asked != allowed:
        return [invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        return [
            invalid(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")
        ]
    return []


def _is_extended(name: str) -> bool:
    prefix = name.partition("/")[0]
    return "/" in name and not re.fullmatch(r"(.*\.)?kubernetes\.io", prefix)


def _may_be_overcommitted(name: str) -> bool:
    return not _is_extended(name) and not name.startswith("hugepages-")


def fractional_byte_warnings(resources: Object, path: str) -> list[str]:
    """Return Kubernetes' warning where `m` (thousandths) is used for bytes: always a slip."""
    return [
        f'{path}.{which}[{name}]: fractional byte value "{quantity}" is invalid, must be an integer'
        for which in ("limits", "requests")
        for name, quantity in (resources.get(which) or {}).items()
        if name in ("memory", "ephemeral-storage") and amount(quantity) % 1 != Decimal(0)
    ]
