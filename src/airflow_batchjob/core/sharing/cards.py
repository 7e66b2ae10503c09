"""Dividing a machine's GPUs among a pod's containers: whole cards, none left over.

One card goes to the first container. Several go to every container, in proportion to their own GPU
limits where they have some, else equally. A count that can't be divided so is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.sharing.machine import DEFAULT_GPU_RESOURCE, Machine
from airflow_batchjob.core.sharing.shares import Container, Division, Kind, read_nanos, taken_beside

# Accelerators whose resource name doesn't say "gpu".
_ACCELERATORS = frozenset(
    {
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "google.com/tpu",
        "habana.ai/gaudi",
    }
)


def card_kind(resource: str) -> Kind:
    """Return the kind that counts cards; sidecars may have them all."""
    return Kind(resource=resource, weight="gpu", unit_nanos=10**9, write=write_cards, least_left=0)


def write_cards(cards: int) -> str:
    """Write a number of cards for a reader."""
    return f"{cards} GPU{'' if cards == 1 else 's'}"


def gpu_resource_of(containers: Sequence[Container], machine: Machine) -> str | Problem:
    """Return what Kubernetes calls the cards: as the machine says, else the manifest's only one."""
    if machine.gpu_resource:
        return machine.gpu_resource
    asked = {name for container in containers for name in (*container.limits, *container.requests)}
    found = sorted(name for name in asked if _is_gpu(name))
    if len(found) > 1 and DEFAULT_GPU_RESOURCE not in found:
        why = f"the manifest asks for several kinds: {', '.join(found)}"
        return Problem("machine.gpu_resource", None, why, "Name the one that the machine has")
    return found[0] if len(found) == 1 else DEFAULT_GPU_RESOURCE


def divide_cards(
    resource: str,
    containers: Sequence[Container],
    init_containers: Sequence[Container],
    machine: Machine,
    total: int | None,
) -> Division:
    """Divide `total` cards among `containers`.

    Args:
        resource: What Kubernetes calls the cards.
        containers: Those that get a share.
        init_containers: Those that keep what they have.
        machine: Its `weights` come before the containers' limits; a weight of 0 means no card.
        total: Number of cards; None where that is not known: then only what is asked is checked.
    """
    kind = card_kind(resource)
    beside, problems = taken_beside(kind, init_containers, total)
    given = machine.weights if isinstance(machine.weights, Mapping) else {}
    named = [(given.get(container.name) or {}).get("gpu") for container in containers]
    is_named = any(value is not None for value in named)
    asked = named if is_named else [container.limits.get(resource) for container in containers]
    paths = [container.resource_path("limits", resource) for container in containers]
    read = [None if v is None else read_nanos(path, v) for path, v in zip(paths, asked, strict=True)]
    problems += [amount for amount in read if isinstance(amount, Problem)]
    if problems or total is None:
        return Division((), tuple(problems))
    weights = [amount for amount in read if not isinstance(amount, Problem)]
    if not is_named:  # a limit of 0 asks for nothing, which is no way to divide anything
        weights = [amount or None for amount in weights]
    return _deal(kind, containers, weights, total - beside, is_named=is_named)


def _deal(
    kind: Kind,
    containers: Sequence[Container],
    weights: Sequence[int | None],
    cards: int,
    *,
    is_named: bool,
) -> Division:
    wanting = [at for at, weight in enumerate(weights) if weight]
    if cards == 0:
        who = ", ".join(containers[at].name for at in wanting)
        why = f"the machine has no GPU for {who}, whose limits ask for some"
        problem = Problem("machine.gpus", 0, why, "Give the machine GPUs, or drop those limits")
        return Division((0,) * len(containers), (problem,) if wanting else ())
    if cards == 1:
        winner = wanting[0] if is_named and len(wanting) == 1 else 0
        return Division(tuple(int(at == winner) for at in range(len(containers))))
    if all(weight is None for weight in weights):
        return _in_proportion(containers, [1] * len(containers), cards)
    missing = tuple(
        Problem(
            container.resource_path("limits", kind.resource),
            container.limits.get(kind.resource),
            "no weight for GPUs, while other containers have one",
            'Give every container one, or none; "gpu": 0 in the machine\'s weights means no card',
        )
        for container, weight in zip(containers, weights, strict=True)
        if weight is None
    )
    if missing:
        return Division((), missing)
    return _in_proportion(containers, [weight or 0 for weight in weights], cards)


def _in_proportion(containers: Sequence[Container], weights: Sequence[int], cards: int) -> Division:
    step = sum(weights) // (reduce(gcd, weights) or 1)
    if step and cards % step == 0:
        return Division(tuple(cards * weight // sum(weights) for weight in weights))
    each = reduce(gcd, weights) or 1
    who = ", ".join(f"{c.name} ({weight // each})" for c, weight in zip(containers, weights, strict=True))
    why = f"{write_cards(cards)} can't be divided into whole cards among {who}, with none left over"
    mend = f"Use a multiple of {step}, or other weights" if step else "Give one container a weight above 0"
    return Division((), (Problem("machine.gpus", cards, why, mend),))


def _is_gpu(resource: str) -> bool:
    return "/" in resource and (
        "gpu" in resource or resource.startswith("nvidia.com/") or resource in _ACCELERATORS
    )
