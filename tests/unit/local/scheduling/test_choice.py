"""Which node a pod goes to, and the words where it goes to none."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.local.scheduling.choice import Placed, Resident, Room, Unplaced, Wish, choose
from airflow_batchjob.local.scheduling.requests import pod_requests

SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}


def room(name: str, *, cpu: int = 4000, taints: Any = (), used: Any = None, **labels: str) -> Room:
    return Room(
        name=name,
        labels={"kubernetes.io/hostname": name, **labels},
        taints=tuple(taints),
        unschedulable=False,
        allocatable={"cpu": cpu, "memory": 8 << 30, "pods": 10},
        used=dict(used or {}),
    )


def wish(cpu: str = "1", **spec: Any) -> Wish:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, **spec.pop("more", {})}}}
    whole = {"containers": [container], **spec}
    return Wish(namespace="ns", labels={"app": "a"}, spec=whole, requests=pod_requests(whole))


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


PLACED: dict[str, tuple[Wish, list[Room], str]] = {
    "the emptier node": (wish(), [room("a", used={"cpu": 3000}), room("b")], "b"),
    "the only one with room": (wish("4"), [room("a", used={"cpu": 1}), room("b")], "b"),
    "the one selected": (wish(nodeSelector={"kind": "x"}), [room("a"), room("b", kind="x")], "b"),
    "a tainted one that is tolerated": (
        wish(tolerations=[{"key": "spot", "operator": "Exists"}]),
        [room("a", taints=[SPOT])],
        "a",
    ),
    "affinity by values": (
        wish(affinity=affinity({"key": "kind", "operator": "In", "values": ["x", "y"]})),
        [room("a", kind="z"), room("b", kind="y")],
        "b",
    ),
    "affinity by absence": (
        wish(affinity=affinity({"key": "kind", "operator": "DoesNotExist"})),
        [room("a", kind="z"), room("b")],
        "b",
    ),
    "affinity by number": (
        wish(affinity=affinity({"key": "cores", "operator": "Gt", "values": ["8"]})),
        [room("a", cores="8"), room("b", cores="9")],
        "b",
    ),
    "the preferred one, though it is fuller": (
        wish(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 5,
                            "preference": {"matchExpressions": [{"key": "kind", "operator": "Exists"}]},
                        }
                    ]
                }
            }
        ),
        [room("a"), room("b", kind="x", used={"cpu": 2000})],
        "b",
    ),
}


@pytest.mark.parametrize(("what", "rooms", "want"), PLACED.values(), ids=PLACED.keys())
def test_goes_to(what: Wish, rooms: list[Room], want: str) -> None:
    assert choose(what, rooms) == Placed(want)


UNPLACED: dict[str, tuple[Wish, list[Room], str]] = {
    "no nodes": (wish(), [], "no nodes available to schedule pods"),
    "too little of everything": (
        wish("5"),
        [room("a"), room("b")],
        (
            "0/2 nodes are available: 2 Insufficient cpu. "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
        ),
    ),
    "a different reason on each": (
        wish(nodeSelector={"kind": "x"}, more={"nvidia.com/gpu": "1"}),
        [room("a"), room("b", kind="x"), room("c", taints=[SPOT])],
        (
            "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, "
            "1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint {spot: true}. "
            "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling."
        ),
    ),
    "a full node": (
        wish(),
        [room("a", used={"pods": 10})],
        (
            "0/1 nodes are available: 1 Too many pods. "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        ),
    ),
    "a toleration of another value": (
        wish(tolerations=[{"key": "spot", "value": "false"}]),
        [room("a", taints=[SPOT])],
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {spot: true}. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ),
    ),
}


@pytest.mark.parametrize(("what", "rooms", "want"), UNPLACED.values(), ids=UNPLACED.keys())
def test_goes_nowhere(what: Wish, rooms: list[Room], want: str) -> None:
    assert choose(what, rooms) == Unplaced(want)


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def test_a_pod_keeps_away_from_its_like() -> None:
    taken = room("a")
    taken.residents["other"] = Resident("ns", {"app": "a"}, ())

    assert choose(wish(affinity=APART), [taken, room("b", used={"cpu": 3000})]) == Placed("b")


def test_a_pod_of_another_namespace_does_not_matter() -> None:
    taken = room("a")
    taken.residents["other"] = Resident("elsewhere", {"app": "a"}, ())

    assert choose(wish(affinity=APART), [taken]) == Placed("a")


def test_those_who_keep_away_are_kept_away_from() -> None:
    taken = room("a")
    terms = tuple(APART["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"])
    taken.wary["other"] = Resident("ns", {"app": "b"}, terms)

    assert choose(wish(), [taken, room("b", used={"cpu": 3000})]) == Placed("b")


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "containers add up": (
        {
            "containers": [
                {"resources": {"requests": {"cpu": "500m", "memory": "1Ki"}}},
                {"resources": {"requests": {"cpu": "1"}}},
            ]
        },
        {"cpu": 1500, "memory": 1024, "pods": 1},
    ),
    "a limit stands in for a request": (
        {"containers": [{"resources": {"limits": {"cpu": "2"}}}]},
        {"cpu": 2000, "pods": 1},
    ),
    "the neediest init container counts alone": (
        {
            "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
            "containers": [{"resources": {"requests": {"cpu": "2"}}}],
        },
        {"cpu": 3000, "pods": 1},
    ),
    "a sidecar stays beside all that follows": (
        {
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "2"}}}],
        },
        {"cpu": 4000, "pods": 1},
    ),
}


@pytest.mark.parametrize(("spec", "want"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests(spec: dict[str, Any], want: dict[str, int]) -> None:
    assert pod_requests(spec) == want
