"""The YAML file of machines: what it gives, and every problem it can have."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import islice

import pytest

from airflow_batchjob.local.nodes.losses import LossRate, times_to_loss
from airflow_batchjob.local.nodes.machines import (
    Capacity,
    MachinesError,
    default_machines,
    read_machines,
)
from airflow_batchjob.local.nodes.objects import node_object

WHOLE = """
machines:
  - name: desk
    cpu: 8
    memory: 16Gi
  - name: spot-1
    cpu: 20
    memory: 101Gi
    gpus: 1
    resources: {example.com/fpga: 2}
    capacity: spot
    labels: {zone: a}
    taints: [{key: spot, value: "true", effect: NoSchedule}]
    reserved: {cpu: 500m, memory: 1Gi}
    pods: 30
"""


def test_a_machine_becomes_a_node() -> None:
    _, spot = read_machines(WHOLE)

    node = node_object(spot, datetime(2026, 1, 1, tzinfo=timezone.utc))

    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "spot-1"
    assert labels["airflow-batchjob/capacity"] == "spot"
    assert labels["zone"] == "a"
    assert node["spec"]["taints"] == [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
    want = {"cpu": "20", "memory": "101Gi", "nvidia.com/gpu": "1", "example.com/fpga": "2", "pods": "30"}
    assert node["status"]["capacity"] == want
    assert node["status"]["allocatable"] == {**want, "cpu": "19500m", "memory": f"{100 * 1024 * 1024}Ki"}


def test_what_is_left_out_has_a_default() -> None:
    desk, _ = read_machines(WHOLE)

    assert (desk.capacity, desk.pods, dict(desk.labels)) == (Capacity.ON_DEMAND, 250, {})


def test_the_default_is_this_machine_and_two_spot_ones() -> None:
    kinds = [machine.capacity for machine in default_machines()]

    assert kinds == [Capacity.ON_DEMAND, Capacity.SPOT, Capacity.SPOT]


PROBLEMS = {
    "not YAML": ("machines: [", "not YAML"),
    "no list": ("machines: 3", "a list of machines is needed"),
    "an empty list": ("machines: []", "a list of machines is needed"),
    "no mapping": ("machines: [3]", "machines[0]: 3 is no mapping"),
    "a field that is not there": ("machines: [{name: a, cpu: 1, memory: 1Gi, ram: 3}]", "machines[0].ram"),
    "no name": ("machines: [{cpu: 1, memory: 1Gi}]", "machines[0].name"),
    "a name that is none": ("machines: [{name: A_B, cpu: 1, memory: 1Gi}]", "'A_B' is no name"),
    "no memory": ("machines: [{name: a, cpu: 1}]", "machines[0].memory: missing"),
    "a wrong quantity": ("machines: [{name: a, cpu: 1x, memory: 1Gi}]", "'1x' is no quantity"),
    "a negative one": ("machines: [{name: a, cpu: -1, memory: 1Gi}]", "-1 is no quantity"),
    "another capacity": ("machines: [{name: a, cpu: 1, memory: 1Gi, capacity: cheap}]", "'cheap' is neither"),
    "a taint without effect": ("machines: [{name: a, cpu: 1, memory: 1Gi, taints: [{key: x}]}]", "taints[0]"),
    "no pods": ("machines: [{name: a, cpu: 1, memory: 1Gi, pods: 0}]", "machines[0].pods"),
    "a name twice": (
        "machines: [{name: a, cpu: 1, memory: 1Gi}, {name: a, cpu: 1, memory: 1Gi}]",
        "'a' is there twice",
    ),
}


@pytest.mark.parametrize(("text", "want"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_problem_is_named(text: str, want: str) -> None:
    with pytest.raises(MachinesError) as raised:
        read_machines(text)

    assert want in str(raised.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(MachinesError) as raised:
        read_machines("machines: [{name: a, cpu: 1x, memory: 1y}, 3]")

    assert len(str(raised.value).splitlines()) == 3


def test_losses_repeat_with_their_seed_and_differ_by_machine() -> None:
    rate = LossRate(mean_seconds=60, seed=7)

    first, again, other = (list(islice(times_to_loss(rate, name), 5)) for name in ("a", "a", "b"))

    assert first == again
    assert first != other


def test_losses_come_at_their_mean_rate() -> None:
    times = list(islice(times_to_loss(LossRate(mean_seconds=60, seed=1), "a"), 5000))

    assert 57 < sum(times) / len(times) < 63
