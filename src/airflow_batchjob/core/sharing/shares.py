"""Dividing cores or memory among a pod's containers by weight, rounded down to whole units.

Sidecars (init containers with `restartPolicy: Always`) run beside the containers, so what they may
use is taken off first. A plain init container has the machine to itself, but for the sidecars
started before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.quantity import NotAQuantity, format_cpu, format_memory, nanos
from airflow_batchjob.core.sharing.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container's resources as its author wrote them, and where."""

    path: str  # "spec.template.spec.containers[0]"
    name: str
    limits: Mapping[str, Any]
    requests: Mapping[str, Any]
    is_sidecar: bool = False

    def resource_path(self, section: str, resource: str) -> str:
        """Return e.g. "…containers[0].resources.limits.cpu"; names with a slash stand in brackets."""
        key = f"[{resource}]" if "/" in resource else f".{resource}"
        return f"{self.path}.resources.{section}{key}"

    def most(self, resource: str) -> int | Problem:
        """Return the nanos it may use: the larger of its limit and its request."""
        asked = [self._asked(section, resource) for section in ("limits", "requests")]
        amounts = [amount for amount in asked if not isinstance(amount, Problem)]
        return next((amount for amount in asked if isinstance(amount, Problem)), max(amounts, default=0))

    def request(self, resource: str) -> int:
        """Return the nanos the scheduler counts: its request, else its limit, else nothing."""
        section = "requests" if self.requests.get(resource) is not None else "limits"
        amount = self._asked(section, resource)
        return 0 if isinstance(amount, Problem) else amount

    def _asked(self, section: str, resource: str) -> int | Problem:
        value = (self.limits if section == "limits" else self.requests).get(resource)
        return 0 if value is None else read_nanos(self.resource_path(section, resource), value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A resource that is handed out in whole units of `unit_nanos`."""

    resource: str  # as in a container's limits
    weight: str  # as in a machine's weights
    unit_nanos: int
    write: Callable[[int], str]  # a number of units -> a quantity
    least_left: int = 1  # units that sidecars must leave to the containers

    def units_up(self, amount_nanos: int) -> int:
        """Return the fewest units that hold the amount."""
        return -(-amount_nanos // self.unit_nanos)


CPU = Kind(resource="cpu", weight="cpu", unit_nanos=10**6, write=format_cpu)
MEMORY = Kind(resource="memory", weight="memory", unit_nanos=10**9 * 2**20, write=format_memory)


class Division(NamedTuple):
    """Units for each container, or the problems that prevent it."""

    shares: tuple[int, ...]
    problems: tuple[Problem, ...] = ()


def read_nanos(path: str, value: Any) -> int | Problem:
    """Return a quantity in nanos, or the problem of the field at `path`."""
    try:
        amount = nanos(value)
    except NotAQuantity as error:
        return error.at(path)
    return amount if amount >= 0 else Problem(path, value, "negative", "Write 0 or more")


def divide(
    kind: Kind,
    containers: Sequence[Container],
    init_containers: Sequence[Container],
    machine: Machine,
    total: int | None,
) -> Division:
    """Divide `total` units of a resource among `containers`.

    Args:
        kind: The resource.
        containers: Those that get a share.
        init_containers: Those that keep what they have.
        machine: Its `weights` come before the containers' limits.
        total: What the machine has, in units; None where that is not known: then only what the
            containers say is checked.
    """
    weights, problems = weigh(kind, containers, machine)
    beside, misfits = taken_beside(kind, init_containers, total)
    problems += misfits
    if problems or total is None:
        return Division((), tuple(problems))
    left = total - beside
    shares = tuple(left * weight // sum(weights) for weight in weights)
    too_small = f"its share of {kind.write(left)} would be less than {kind.write(1)}"
    return Division(
        shares,
        tuple(
            Problem(
                container.resource_path("limits", kind.resource), weight, too_small, "Give it more weight"
            )
            for container, weight, share in zip(containers, weights, shares, strict=True)
            if share < 1
        ),
    )


def weigh(kind: Kind, containers: Sequence[Container], machine: Machine) -> tuple[list[int], list[Problem]]:
    """Return each container's weight: from the machine's `weights` if they name the resource, else its limit.

    Where no container has one, all are equal; where only some have, those without are problems.
    """
    given = machine.weights if isinstance(machine.weights, Mapping) else {}
    values = [(given.get(container.name) or {}).get(kind.weight) for container in containers]
    paths = [f"machine.weights.{container.name}.{kind.weight}" for container in containers]
    if all(value is None for value in values):
        values = [container.limits.get(kind.resource) for container in containers]
        paths = [container.resource_path("limits", kind.resource) for container in containers]
    if all(value is None for value in values):
        return [1] * len(containers), []
    weights, problems = [], []
    for path, value in zip(paths, values, strict=True):
        weight = read_nanos(path, value) if value is not None else 0
        if isinstance(weight, Problem):
            problems.append(weight)
        elif weight == 0:
            why = "no weight, while other containers have one" if value is None else "a weight of nothing"
            problems.append(Problem(path, value, why, "Give every container one, or none"))
        else:
            weights.append(weight)
    return weights, problems


def taken_beside(
    kind: Kind, init_containers: Sequence[Container], total: int | None
) -> tuple[int, list[Problem]]:
    """Return the units that sidecars take of `total`, and the init containers that do not fit it."""
    beside, problems = 0, []
    for container in init_containers:
        most = container.most(kind.resource)
        if isinstance(most, Problem):
            problems.append(most)
            continue
        own = kind.units_up(most)
        left = None if total is None else max(total - beside, 0)
        beside += own if container.is_sidecar else 0
        keep = kind.least_left if container.is_sidecar else 0
        if own and left is not None and own > left - keep:
            why = f"the machine has {kind.write(left)} for it"
            if keep:
                why += " and must keep some for the containers"
            path = container.resource_path("limits", kind.resource)
            problems.append(Problem(path, kind.write(own), why, "Lower it, or take a larger machine"))
    return beside, problems
