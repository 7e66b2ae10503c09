"""A machine's share for each container of a pod, by the weight of its limits.

Whole numbers of the smallest units (1m, 1Mi, one card), always rounded down, so that the sum of
what is handed out never exceeds the machine. What a container has besides cores, memory and GPUs
stays as given, and so do init containers and sidecars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.sharing.cards import card_kind, divide_cards, gpu_resource_of
from airflow_batchjob.core.sharing.machine import DEFAULT_GPU_RESOURCE, Machine
from airflow_batchjob.core.sharing.packing import packing_notes, pod_size
from airflow_batchjob.core.sharing.shares import CPU, MEMORY, Container, Division, divide

__all__ = ["Allocation", "Machine", "allocate"]

_REQUESTED_PART = 4  # requests are a quarter of the limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A pod spec whose containers have their shares, and what its author should know about them."""

    pod_spec: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    """What each container gets, in units; empty where there are problems."""

    cpu: Division
    memory: Division
    cards: Division
    gpu_resource: str

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.cpu.problems, *self.memory.problems, *self.cards.problems)


def allocate(
    pod_spec: Mapping[str, Any], machine: Machine, *, path: str = "spec.template.spec"
) -> Allocation:
    """Give each container its share of `machine`.

    A container's limit is its weight: its share is limit / sum of limits, of CPU and memory each.
    Requests are a quarter of the share, or all of it where `machine.guaranteed`.

    Args:
        pod_spec: A pod spec in Kubernetes' spelling; not changed.
        machine: What there is to share out.
        path: Where the pod spec stands in its manifest, for errors.

    Raises:
        SpecError: With every problem of the machine, the containers and the division.
    """
    containers, found = _read(pod_spec, "containers", path)
    init_containers, more = _read(pod_spec, "initContainers", path)
    problems = [*machine.problems(), *_pod_problems(pod_spec, containers, machine, path), *found, *more]
    broken = {problem.field for problem in problems}
    if not containers or any(field.startswith("machine.weights") for field in broken):
        raise SpecError(*problems)
    gpu = gpu_resource_of((*containers, *init_containers), machine)
    if isinstance(gpu, Problem):
        problems.append(gpu)
        gpu, broken = DEFAULT_GPU_RESOURCE, broken | {"machine.gpus"}
    divided = _Divided(
        cpu=divide(
            CPU, containers, init_containers, machine, None if "machine.cpu" in broken else machine.millicores
        ),
        memory=divide(
            MEMORY,
            containers,
            init_containers,
            machine,
            None if "machine.memory" in broken else machine.mebibytes,
        ),
        cards=divide_cards(
            gpu, containers, init_containers, machine, None if "machine.gpus" in broken else machine.cards
        ),
        gpu_resource=gpu,
    )
    if problems := [*problems, *divided.problems]:
        raise SpecError(*problems)
    return Allocation(
        pod_spec={**pod_spec, "containers": list(_with_shares(pod_spec["containers"], divided, machine))},
        notes=_notes(divided, init_containers, machine),
    )


def _read(pod_spec: Mapping[str, Any], key: str, path: str) -> tuple[list[Container], list[Problem]]:
    containers, problems = [], []
    for at, item in enumerate(pod_spec.get(key) or ()):
        where = f"{path}.{key}[{at}]"
        resources = (item.get("resources") or {}) if isinstance(item, Mapping) else item
        sections = (
            {section: resources.get(section) or {} for section in ("limits", "requests")}
            if isinstance(resources, Mapping)
            else {}
        )
        if not sections or not all(isinstance(section, Mapping) for section in sections.values()):
            mend = "Write name, image and resources: {limits: {cpu: 1, memory: 2Gi}}"
            problems.append(Problem(where, item, "not a container with limits and requests", mend))
            continue
        containers.append(
            Container(
                path=where,
                name=str(item.get("name") or ""),
                is_sidecar=key == "initContainers" and item.get("restartPolicy") == "Always",
                **sections,
            )
        )
    return containers, problems


def _pod_problems(
    pod_spec: Mapping[str, Any], containers: Sequence[Container], machine: Machine, path: str
) -> Iterator[Problem]:
    if not containers:
        why = "a machine is shared out among containers, and there is none"
        yield Problem(f"{path}.containers", pod_spec.get("containers"), why, "Give at least one")
    if pod_spec.get("resources"):
        why = "a budget for the whole pod contradicts shares of a machine"
        yield Problem(f"{path}.resources", pod_spec["resources"], why, "Drop it, or the machine")
    names = [container.name for container in containers]
    weights = machine.weights if isinstance(machine.weights, Mapping) else {}
    for name in weights:
        if name not in names:
            why = "there is no such container"
            yield Problem(f"machine.weights.{name}", weights[name], why, f"Use {', '.join(names)}")


def _with_shares(items: Sequence[Any], divided: _Divided, machine: Machine) -> Iterator[dict[str, Any]]:
    gpu = divided.gpu_resource
    all_shares = zip(items, divided.cpu.shares, divided.memory.shares, divided.cards.shares, strict=True)
    for item, cpu, memory, cards in all_shares:
        given = item.get("resources") or {}
        own = {"cpu", "memory", gpu}
        card = {gpu: str(cards)} if cards else {}
        shared = {
            "limits": {"cpu": CPU.write(cpu), "memory": MEMORY.write(memory), **card},
            "requests": {
                "cpu": CPU.write(_requested(cpu, machine)),
                "memory": MEMORY.write(_requested(memory, machine)),
                **card,
            },
        }
        kept = {
            section: {name: value for name, value in (given.get(section) or {}).items() if name not in own}
            for section in shared
        }
        resources = {section: {**shared[section], **kept[section]} for section in shared}
        yield {**item, "resources": {**given, **resources}}


def _requested(limit: int, machine: Machine) -> int:
    return limit if machine.guaranteed else max(limit // _REQUESTED_PART, 1)


def _notes(divided: _Divided, init_containers: Sequence[Container], machine: Machine) -> tuple[str, ...]:
    sizes = [
        pod_size(
            name,
            kind,
            total,
            [(_requested(share, machine), share) for share in division.shares],
            init_containers,
        )
        for name, kind, total, division in (
            ("CPU", CPU, machine.millicores, divided.cpu),
            ("memory", MEMORY, machine.mebibytes, divided.memory),
        )
    ]
    cards = [(share, share) for share in divided.cards.shares]  # cards can't be overcommitted
    sizes.append(pod_size("GPUs", card_kind(divided.gpu_resource), machine.cards, cards, init_containers))
    return packing_notes(sizes, machine)
