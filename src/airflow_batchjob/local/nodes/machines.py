"""The machines of a local cluster, as one small YAML file declares them.

::

    machines:
      - name: desk
        cpu: 8
        memory: 16Gi
        capacity: on-demand       # or spot; on-demand where not given
      - name: spot-1
        cpu: 20
        memory: 101Gi
        gpus: 1                   # nvidia.com/gpu
        resources: {example.com/fpga: 2}
        capacity: spot
        labels: {zone: a}
        taints: [{key: spot, value: "true", effect: NoSchedule}]
        reserved: {cpu: 500m, memory: 1Gi}
        pods: 250

A machine may be declared bigger than the one everything runs on: processes then share what there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import psutil
import yaml

from airflow_batchjob.local.api.quantity import amount

GPU = "nvidia.com/gpu"
MOST_PODS = 250
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESERVED = {"cpu": "100m", "memory": "256Mi"}

_FIELDS = frozenset(
    ("name", "cpu", "memory", "gpus", "resources", "capacity", "labels", "taints", "reserved", "pods")
)
_MEBI = 1024 * 1024


class Capacity(str, Enum):
    """Whether a machine can be taken away."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine. Quantities are as Kubernetes writes them."""

    name: str
    cpu: str
    memory: str
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further ones, e.g. ``{"nvidia.com/gpu": "1"}``."""
    capacity: Capacity = Capacity.ON_DEMAND
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    reserved: Mapping[str, str] = field(default_factory=lambda: dict(RESERVED))
    """What the system keeps for itself: allocatable is the rest."""
    pods: int = MOST_PODS


class MachinesError(ValueError):
    """A declaration that cannot be used; the message names every problem."""


def default_machines() -> tuple[Machine, ...]:
    """Return this machine as on-demand, and two spot machines of the same size."""
    cpu = str(os.cpu_count() or 1)
    memory = f"{psutil.virtual_memory().total // _MEBI}Mi"
    return (
        Machine(name="local", cpu=cpu, memory=memory),
        Machine(name="spot-1", cpu=cpu, memory=memory, capacity=Capacity.SPOT),
        Machine(name="spot-2", cpu=cpu, memory=memory, capacity=Capacity.SPOT),
    )


def load_machines(path: Path) -> tuple[Machine, ...]:
    """Read a declaration from a file.

    Raises:
        MachinesError: It cannot be read, or something in it is wrong.
    """
    try:
        return read_machines(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MachinesError(f"{path}: {error.strerror}. Name a file that can be read") from error
    except MachinesError as error:
        raise MachinesError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def read_machines(text: str) -> tuple[Machine, ...]:
    """Read a declaration.

    Raises:
        MachinesError: Something in it is wrong; all of it is named.
    """
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise MachinesError(f"not YAML: {error}") from error
    declared = tree.get("machines") if isinstance(tree, dict) else None
    if not isinstance(declared, list) or not declared:
        raise MachinesError(
            "machines: a list of machines is needed. Write e.g. machines: [{name: a, cpu: 4, memory: 8Gi}]"
        )
    problems = [line for number, one in enumerate(declared) for line in _problems(one, f"machines[{number}]")]
    names = [one.get("name") for one in declared if isinstance(one, dict)]
    doubled = sorted({str(name) for name in names if name is not None and names.count(name) > 1})
    problems += [
        f"machines: name {name!r} is there twice. Give each machine a name of its own" for name in doubled
    ]
    if problems:
        raise MachinesError("\n".join(problems))
    return tuple(_machine(one) for one in declared)


def _problems(one: Any, where: str) -> Iterator[str]:
    if not isinstance(one, dict):
        yield f"{where}: {one!r} is no mapping. Write name, cpu and memory"
        return
    for key in sorted(set(one) - _FIELDS, key=str):
        yield f"{where}.{key}: there is no such field. Known: {', '.join(sorted(_FIELDS))}"
    if not _is_name(one.get("name")):
        yield (
            f"{where}.name: {one.get('name')!r} is no name of a node. "
            "Use lower-case letters, digits, '-' and '.'"
        )
    for key in ("cpu", "memory"):
        yield from _quantity_problems(one.get(key), f"{where}.{key}", needed=True)
    yield from _quantity_problems(one.get("gpus"), f"{where}.gpus", needed=False)
    for part in ("resources", "reserved"):
        for key, value in _mapping(one.get(part)).items():
            yield from _quantity_problems(value, f"{where}.{part}[{key}]", needed=True)
    yield from _placement_problems(one, where)


def _placement_problems(one: Mapping[str, Any], where: str) -> Iterator[str]:
    if one.get("capacity") is not None and one["capacity"] not in {kind.value for kind in Capacity}:
        yield f"{where}.capacity: {one['capacity']!r} is neither. Use spot or on-demand"
    for number, taint in enumerate(one.get("taints") or ()):
        if not isinstance(taint, dict) or not taint.get("key") or taint.get("effect") not in EFFECTS:
            known = ", ".join(EFFECTS)
            yield f"{where}.taints[{number}]: {taint!r} is no taint. Give key and effect, one of {known}"
    pods = one.get("pods", MOST_PODS)
    if not isinstance(pods, int) or isinstance(pods, bool) or pods < 1:
        yield f"{where}.pods: {pods!r} is no number of pods. Use 1 or more"


def _quantity_problems(value: Any, where: str, *, needed: bool) -> Iterator[str]:
    if value is None:
        if needed:
            yield f"{where}: missing. Write e.g. 4 or 8Gi"
        return
    try:
        if amount(value) >= 0:
            return
    except (ValueError, TypeError):
        pass
    yield f"{where}: {value!r} is no quantity. Write e.g. 4, 500m or 8Gi"


def _machine(one: Mapping[str, Any]) -> Machine:
    resources = {key: str(value) for key, value in _mapping(one.get("resources")).items()}
    if one.get("gpus"):
        resources[GPU] = str(one["gpus"])
    return Machine(
        name=one["name"],
        cpu=str(one["cpu"]),
        memory=str(one["memory"]),
        resources=resources,
        capacity=Capacity(one.get("capacity") or "on-demand"),
        labels={key: str(value) for key, value in _mapping(one.get("labels")).items()},
        taints=tuple({key: str(value) for key, value in taint.items()} for taint in one.get("taints") or ()),
        reserved={**RESERVED, **{key: str(value) for key, value in _mapping(one.get("reserved")).items()}},
        pods=one.get("pods", MOST_PODS),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_name(value: Any) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= 63:
        return False
    plain = value.replace("-", "a").replace(".", "a")
    return (
        plain.isascii()
        and plain.isalnum()
        and value == value.lower()
        and value[0].isalnum()
        and value[-1].isalnum()
    )
