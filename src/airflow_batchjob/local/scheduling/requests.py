"""What a pod asks of a node, in whole numbers: cheap to add and to compare."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

from airflow_batchjob.local.api.quantity import amount

Object = dict[str, Any]
Amounts = dict[str, int]
"""By resource: thousandths of a core for cpu, bytes for memory, else whole units."""


@lru_cache(maxsize=4096)
def units(resource: str, quantity: str) -> int:
    """Return a quantity of a resource in the unit it is counted in, rounded up."""
    exact = amount(quantity) * (1000 if resource == "cpu" else 1)
    return int(exact.to_integral_value(ROUND_CEILING))


def in_units(quantities: Mapping[str, Any]) -> Amounts:
    """Return quantities by resource in the units they are counted in."""
    return {name: units(name, str(quantity)) for name, quantity in quantities.items()}


def pod_requests(spec: Object) -> Amounts:
    """Return what a pod needs at its neediest moment.

    Sidecars stay, so they count with every init container after them and with the containers.

    Source:
        https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    staying: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        needs = _container_requests(container)
        peak = _most(peak, _sum(staying, needs))
        if container.get("restartPolicy") == "Always":
            staying = _sum(staying, needs)
    for container in spec["containers"]:
        staying = _sum(staying, _container_requests(container))
    return {**_most(peak, staying), "pods": 1}


def _container_requests(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return in_units({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(a: Amounts, b: Amounts) -> Amounts:
    return {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *(n for n in b if n not in a))}


def _most(a: Amounts, b: Amounts) -> Amounts:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in (*a, *(n for n in b if n not in a))}
