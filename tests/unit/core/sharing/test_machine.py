"""The machine: what its text says, and what is no machine."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.sharing.allocation import Machine

READ = {
    "as on the command line": ("cpu=20,memory=101Gi,gpus=1", (20_000, 103_424, 1, None, False)),
    "without GPUs, spaced": (" cpu = 500m , memory = 1G ", (500, 953, 0, None, False)),
    "every field": (
        "cpu=8,memory=8Gi,gpus=2,gpu_resource=amd.com/gpu,guaranteed=true",
        (8_000, 8_192, 2, "amd.com/gpu", True),
    ),
}


@pytest.mark.parametrize(("text", "want"), READ.values(), ids=READ.keys())
def test_a_machine_is_read_from_text(text: str, want: tuple[Any, ...]) -> None:
    machine = Machine.parse(text)

    assert (
        machine.millicores,
        machine.mebibytes,
        machine.cards,
        machine.gpu_resource,
        machine.guaranteed,
    ) == want
    assert not list(machine.problems())


REFUSED = {
    "nothing": ("", ["machine"]),
    "a word": ("big", ["machine"]),
    "an unknown field, and one without value": ("cores=2,memory=", ["machine", "machine"]),
    "a field given twice": ("cpu=2,cpu=3,memory=1Gi", ["machine"]),
    "no memory": ("cpu=2", ["machine.memory"]),
    "every bad value": (
        "cpu=two,memory=101,gpus=1.5,gpu_resource=gpu,guaranteed=perhaps",
        ["machine.cpu", "machine.memory", "machine.gpus", "machine.gpu_resource", "machine.guaranteed"],
    ),
    "no core, negative memory and cards": (
        "cpu=0,memory=-1Gi,gpus=-1",
        ["machine.cpu", "machine.memory", "machine.gpus"],
    ),
    "more cores than any machine": ("cpu=20Gi,memory=1Gi", ["machine.cpu"]),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_text_that_is_no_machine_is_refused(text: str, want: list[str]) -> None:
    with pytest.raises(SpecError) as raised:
        Machine.parse(text)

    assert [problem.field for problem in raised.value.problems] == want


def test_memory_without_a_unit_is_taken_for_the_slip_it_is() -> None:
    (problem,) = Machine(20, 101).problems()

    assert '"101Gi"' in problem.mend


WEIGHTS = {
    "no mapping": ({"train": 3}, ["machine.weights.train"]),
    "a list": ([1], ["machine.weights"]),
    "an unknown resource": ({"train": {"disk": 1}}, ["machine.weights.train.disk"]),
    "a weight of nothing, and no number": (
        {"train": {"cpu": 0, "memory": "x"}},
        ["machine.weights.train.cpu", "machine.weights.train.memory"],
    ),
    "no card is a wish": ({"train": {"gpu": 0}}, []),
}


@pytest.mark.parametrize(("weights", "want"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights_are_numbers_by_container_and_resource(weights: Any, want: list[str]) -> None:
    machine = Machine(cpu=20, memory="101Gi", weights=weights)

    assert [problem.field for problem in machine.problems()] == want


def test_a_named_machine_is_read_from_json() -> None:
    machine = Machine.from_mapping({"cpu": 20, "memory": "101Gi", "gpus": 1})

    assert machine == Machine(20, "101Gi", 1)
    assert str(machine) == "20 cores, 101Gi, 1 GPU"


def test_a_named_machine_with_an_unknown_field_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="Use one of cpu, memory, gpus") as raised:
        Machine.from_mapping({"cores": 20, "memory": "101Gi"}, field="machines.big")

    assert [problem.field for problem in raised.value.problems] == ["machines.big.cores", "machines.big.cpu"]
