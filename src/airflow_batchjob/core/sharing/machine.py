"""The machine whose cores, memory and GPUs a pod's containers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.quantity import NotAQuantity, Quantity, mebibytes, nanos, whole

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
WEIGHTS = ("cpu", "memory", "gpu")

_FIELDS = ("cpu", "memory", "gpus", "gpu_resource", "guaranteed", "weights")
_TEXT_FIELDS = _FIELDS[:-1]
_EXAMPLE = 'Write e.g. "cpu=20,memory=101Gi,gpus=1"'
_MOST_CORES = 1_000_000
_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ANY_SIZE: Mapping[str, Any] = {"cpu": 1, "memory": "1Gi"}  # stands in for what is not given
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Machine:
    """What one machine has to share out.

    Args:
        cpu: Cores, e.g. 20 or "14000m".
        memory: E.g. "101Gi"; a bare number is bytes.
        gpus: Number of whole cards.
        gpu_resource: What Kubernetes calls the cards; None: the manifest's only GPU resource, else
            "nvidia.com/gpu".
        guaranteed: Requests equal limits, so that a pod has its share to itself; otherwise requests
            are a quarter of the limits.
        weights: By container name, in place of the containers' limits: {"train": {"cpu": 3,
            "memory": 12, "gpu": 1}}. A resource that no container has a weight for goes by limits.
        is_allocatable: The sizes are what a node leaves to pods (read from a cluster), not what
            its maker sells.
    """

    cpu: Quantity
    memory: Quantity
    gpus: Quantity = 0
    gpu_resource: str | None = None
    guaranteed: bool = False
    weights: Mapping[str, Mapping[str, Quantity]] | None = None
    is_allocatable: bool = field(default=False, kw_only=True)

    @classmethod
    def parse(cls, text: str, *, field: str = "machine") -> Machine:
        """Read "cpu=20,memory=101Gi,gpus=1"; also gpu_resource=… and guaranteed=true.

        Raises:
            SpecError: With every problem of the text and of the machine it describes.
        """
        fields: dict[str, Any] = {}
        problems: list[Problem] = []
        for item in text.split(","):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not equals or name not in _TEXT_FIELDS or not value:
                known = ", ".join(_TEXT_FIELDS)
                problems.append(Problem(field, item, f"not one of {known} with a value", _EXAMPLE))
            elif name in fields:
                problems.append(Problem(field, item, f"{name} is given twice", "Drop one"))
            else:
                fields[name] = _TRUTH.get(value, value) if name == "guaranteed" else value
        if problems:  # what seems to be missing may be what could not be read
            raise SpecError(*problems, *cls(**{**_ANY_SIZE, **fields}).problems(field=field))
        return cls.from_mapping(fields, field=field)

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any], *, field: str = "machine") -> Machine:
        """Read a machine from JSON, e.g. one that is named in a connection's extra.

        Raises:
            SpecError: Unknown or missing fields, or a machine with problems.
        """
        problems = [
            Problem(f"{field}.{name}", fields[name], "no such field", f"Use one of {', '.join(_FIELDS)}")
            for name in sorted(set(fields) - set(_FIELDS))
        ] + [
            Problem(f"{field}.{name}", None, "must be given", _EXAMPLE)
            for name in ("cpu", "memory")
            if name not in fields
        ]
        known = {name: value for name, value in fields.items() if name in _FIELDS}
        machine = cls(**{**_ANY_SIZE, **known})
        if found := (*problems, *machine.problems(field=field)):
            raise SpecError(*found)
        return machine

    def problems(self, *, field: str = "machine") -> Iterator[Problem]:
        """Yield everything that makes this no machine to share out."""
        yield from _size(f"{field}.cpu", self.cpu, _core_problem)
        yield from _size(f"{field}.memory", self.memory, _memory_problem)
        yield from _size(f"{field}.gpus", self.gpus, _card_problem)
        yield from _name_problem(f"{field}.gpu_resource", self.gpu_resource)
        yield from _flag_problem(f"{field}.guaranteed", self.guaranteed)
        yield from _weight_problems(f"{field}.weights", self.weights)

    @property
    def millicores(self) -> int:
        """Thousandths of a core, rounded down."""
        return nanos(self.cpu) // 10**6

    @property
    def mebibytes(self) -> int:
        """Whole MiB, rounded down."""
        return mebibytes(self.memory)

    @property
    def cards(self) -> int:
        """Number of GPUs."""
        return whole(self.gpus)

    def __str__(self) -> str:
        cards = {0: "", 1: ", 1 GPU"}.get(self.cards, f", {self.cards} GPUs")
        cores = "core" if str(self.cpu) == "1" else "cores"
        return f"{self.cpu} {cores}, {self.memory}{cards}"


def _size(
    field: str, value: Quantity, check: Callable[[Quantity], tuple[str, str] | None]
) -> Iterator[Problem]:
    try:
        found = check(value)
    except NotAQuantity as error:
        yield error.at(field)
        return
    if found is not None:
        yield Problem(field, value, *found)


def _core_problem(value: Quantity) -> tuple[str, str] | None:
    if nanos(value) < 10**6:
        return "less than one thousandth of a core", "Write e.g. 20"
    if nanos(value) > _MOST_CORES * 10**9:
        return "more cores than any machine has", "Write cores, e.g. 20, or thousandths, e.g. 20000m"
    return None


def _memory_problem(value: Quantity) -> tuple[str, str] | None:
    if mebibytes(value) >= 1:
        return None
    if nanos(value) <= 0:
        return "no machine has no memory, or less", 'Write e.g. "101Gi"'
    if not str(value)[-1].isalpha():
        return "less than 1 MiB; a bare number is bytes", f'Did you mean "{value}Gi"? Write the unit'
    return "less than 1 MiB", 'Write e.g. "101Gi"'


def _card_problem(value: Quantity) -> tuple[str, str] | None:
    if whole(value) < 0:
        return "a number of cards is never negative", "Write 0 or more"
    return None


def _name_problem(field: str, name: object) -> Iterator[Problem]:
    if name is not None and not (isinstance(name, str) and _RESOURCE_NAME.fullmatch(name)):
        yield Problem(field, name, "not a resource name", 'Write e.g. "amd.com/gpu"')


def _flag_problem(field: str, flag: object) -> Iterator[Problem]:
    if not isinstance(flag, bool):
        yield Problem(field, flag, "neither true nor false", "Write True or False")


def _weight_problems(field: str, weights: object) -> Iterator[Problem]:
    example = 'Write e.g. {"train": {"cpu": 3, "memory": 12, "gpu": 1}}'
    if weights is None:
        return
    if not isinstance(weights, Mapping):
        yield Problem(field, weights, "not a mapping from container names", example)
        return
    for container, own in weights.items():
        if not isinstance(own, Mapping) or not own:
            yield Problem(f"{field}.{container}", own, "not a mapping from resources to weights", example)
            continue
        for resource, weight in own.items():
            path = f"{field}.{container}.{resource}"
            if resource not in WEIGHTS:
                yield Problem(path, weight, "no such resource", f"Use {', '.join(WEIGHTS)}")
            else:
                yield from _size(path, weight, _no_card_is_fine if resource == "gpu" else _weight_problem)


def _weight_problem(value: Quantity) -> tuple[str, str] | None:
    return None if nanos(value) > 0 else ("a weight must be above 0", "Write e.g. 1")


def _no_card_is_fine(value: Quantity) -> tuple[str, str] | None:
    return None if nanos(value) >= 0 else ("a weight is never negative", "Write 0 for no card")
