"""The allocation algorithm, rule by rule."""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.quantity import mebibytes, millicores
from airflow_batchjob.core.sharing.allocation import Allocation, Machine, allocate

GPU = "nvidia.com/gpu"
BIG = Machine(cpu=20, memory="101Gi", gpus=1)


def container(name: str, limits: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    given = {} if limits is None else {"resources": {"limits": limits}}
    return {"name": name, "image": "x", **given, **fields}


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"containers": list(containers), **({"initContainers": init} if init else {})}


def resources(allocation: Allocation, section: str, resource: str) -> list[Any]:
    return [c["resources"][section].get(resource) for c in allocation.pod_spec["containers"]]


TWO = pod(
    container("train", {"cpu": "14000m", "memory": "51200Mi", GPU: 1}),
    container("helper", {"cpu": "9333m", "memory": "4200Mi", GPU: 1}),
)


def test_an_exported_manifest_gets_the_shares_of_the_specification() -> None:
    given = deepcopy(TWO)
    given["containers"][1]["resources"]["requests"] = {"cpu": "2333m", GPU: 1, "memory": "10666Mi"}

    got = allocate(given, BIG)

    assert [c["resources"] for c in got.pod_spec["containers"]] == [
        {
            "limits": {"cpu": "12000m", "memory": "95583Mi", GPU: "1"},
            "requests": {"cpu": "3000m", "memory": "23895Mi", GPU: "1"},
        },
        {
            "limits": {"cpu": "7999m", "memory": "7840Mi"},
            "requests": {"cpu": "1999m", "memory": "1960Mi"},
        },
    ]


def test_a_pod_spec_is_not_changed() -> None:
    before = deepcopy(TWO)

    allocate(MappingProxyType(TWO), BIG)

    assert before == TWO


def test_what_is_not_shared_out_stays() -> None:
    limits = {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "5Gi", "hugepages-2Mi": "64Mi"}
    given = container("a", limits, env=[{"name": "A"}])
    given["resources"]["requests"] = {"cpu": "1", "ephemeral-storage": "2Gi"}
    given["resources"]["claims"] = [{"name": "c"}]

    (got,) = allocate({**pod(given), "restartPolicy": "Never"}, Machine(2, "2Gi")).pod_spec["containers"]

    assert got["env"] == [{"name": "A"}]
    assert got["resources"] == {
        "limits": {"cpu": "2000m", "memory": "2048Mi", "ephemeral-storage": "5Gi", "hugepages-2Mi": "64Mi"},
        "requests": {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "2Gi"},
        "claims": [{"name": "c"}],
    }


SHARES = {
    "no limits at all: equal": (
        pod(container("a"), container("b")),
        Machine(3, "3Mi"),
        ["1500m"] * 2,
        ["1Mi"] * 2,
    ),
    "limits of CPU alone: memory is equal": (
        pod(container("a", {"cpu": 3}), container("b", {"cpu": 1})),
        Machine(4, "1Gi"),
        ["3000m", "1000m"],
        ["512Mi", "512Mi"],
    ),
    "a limit of null is none": (
        pod(container("a", {"cpu": None}), container("b")),
        Machine(4, "1Gi"),
        ["2000m", "2000m"],
        ["512Mi", "512Mi"],
    ),
    "weights in place of limits": (
        TWO,
        Machine(4, "1Gi", 1, weights={"train": {"cpu": 3, "memory": 1}, "helper": {"cpu": 1, "memory": "1"}}),
        ["3000m", "1000m"],
        ["512Mi", "512Mi"],
    ),
    "weights of CPU alone: memory goes by limits": (
        pod(container("a", {"memory": "3Gi"}), container("b", {"memory": "1Gi"})),
        Machine(4, "4Gi", weights={"a": {"cpu": 1}, "b": {"cpu": 3}}),
        ["1000m", "3000m"],
        ["3072Mi", "1024Mi"],
    ),
    "a sidecar's limits are taken off first": (
        pod(
            container("a"),
            init=[container("s", {"cpu": "1", "memory": "24Mi"}, restartPolicy="Always")],
        ),
        Machine(4, "1Gi"),
        ["3000m"],
        ["1000Mi"],
    ),
    "a sidecar without limits takes what it requests": (
        pod(
            container("a"),
            init=[{"name": "s", "resources": {"requests": {"cpu": "1n"}}, "restartPolicy": "Always"}],
        ),
        Machine(4, "1Gi"),
        ["3999m"],
        ["1024Mi"],
    ),
    "a plain init container is not summed": (
        pod(container("a"), init=[container("i", {"cpu": 4, "memory": "1Gi"})]),
        Machine(4, "1Gi"),
        ["4000m"],
        ["1024Mi"],
    ),
    "a machine of broken units is rounded down": (
        pod(container("a")),
        Machine("1500u", "1500000", 0),
        ["1m"],
        ["1Mi"],
    ),
}


@pytest.mark.parametrize(("given", "machine", "want_cpu", "want_memory"), SHARES.values(), ids=SHARES.keys())
def test_shares(given: Any, machine: Machine, want_cpu: list[str], want_memory: list[str]) -> None:
    got = allocate(given, machine)

    assert resources(got, "limits", "cpu") == want_cpu
    assert resources(got, "limits", "memory") == want_memory


def test_requests_are_a_quarter_but_never_nothing() -> None:
    got = allocate(pod(container("a"), container("b", {})), Machine("6m", "6Mi"))

    assert resources(got, "limits", "cpu") == ["3m", "3m"]
    assert resources(got, "requests", "cpu") == ["1m", "1m"]
    assert resources(got, "requests", "memory") == ["1Mi", "1Mi"]


def test_guaranteed_requests_equal_limits() -> None:
    got = allocate(TWO, Machine(20, "101Gi", 1, guaranteed=True))

    for resource in ("cpu", "memory", GPU):
        assert resources(got, "requests", resource) == resources(got, "limits", resource)


A, B = {"cpu": 1, "memory": "1Gi", GPU: 1}, {"cpu": 1, "memory": "1Gi", GPU: 3}
CARDS = {
    "one card: the first gets it and no other does": (
        1,
        pod(container("a"), container("b", {GPU: 1})),
        ["1", None],
    ),
    "one card that weights give to another": (
        Machine(9, "9Gi", 1, weights={"b": {"gpu": 1}}),
        pod(container("a"), container("b")),
        [None, "1"],
    ),
    "several in proportion": (8, pod(container("a", A), container("b", B)), ["2", "6"]),
    "several equally": (4, pod(container("a"), container("b")), ["2", "2"]),
    "several to the only container": (3, pod(container("a")), ["3"]),
    "limits of nothing are no wish: equal": (
        4,
        pod(container("a", {GPU: 0}), container("b", {GPU: "0"})),
        ["2", "2"],
    ),
    "weights may leave one out": (
        Machine(9, "9Gi", 3, weights={"a": {"gpu": 1}, "b": {"gpu": 0}}),
        pod(container("a", A), container("b", B)),
        ["3", None],
    ),
    "none": (0, pod(container("a", {GPU: 0}), container("b")), [None, None]),
    "a sidecar's card is taken off first": (
        2,
        pod(container("a"), container("b"), init=[container("s", {GPU: 1}, restartPolicy="Always")]),
        ["1", None],
    ),
    "a sidecar may have the only card": (
        1,
        pod(container("a"), init=[container("s", {GPU: 1}, restartPolicy="Always")]),
        [None],
    ),
}


@pytest.mark.parametrize(("machine", "given", "want"), CARDS.values(), ids=CARDS.keys())
def test_whole_cards_none_left_over(machine: int | Machine, given: Any, want: list[str | None]) -> None:
    if isinstance(machine, int):
        machine = Machine(cpu=9, memory="9Gi", gpus=machine)

    got = allocate(given, machine)

    assert resources(got, "limits", GPU) == want
    assert resources(got, "requests", GPU) == want


RESOURCES = {
    "the manifest's only one": (Machine(9, "9Gi", 1), {"amd.com/gpu": 1}, "amd.com/gpu"),
    "one that does not say gpu": (Machine(9, "9Gi", 1), {"google.com/tpu": 1}, "google.com/tpu"),
    "none in the manifest": (Machine(9, "9Gi", 1), {}, GPU),
    "other devices are no GPUs": (Machine(9, "9Gi", 1), {"vpc.amazonaws.com/efa": 1}, GPU),
    "two, one of them the default": (Machine(9, "9Gi", 1), {"amd.com/gpu": 1, GPU: 1}, GPU),
    "as the machine says": (Machine(9, "9Gi", 1, "intel.com/gpu"), {}, "intel.com/gpu"),
}


@pytest.mark.parametrize(("machine", "limits", "want"), RESOURCES.values(), ids=RESOURCES.keys())
def test_what_the_cards_are_called(machine: Machine, limits: dict[str, Any], want: str) -> None:
    got = allocate(pod(container("a", {"cpu": 1, "memory": "1Gi", **limits})), machine)

    assert resources(got, "limits", want) == ["1"]


LIMITS = "spec.template.spec.containers[{}].resources.limits.{}"
REFUSED = {
    "a container without a limit, another with one": (
        pod(container("a", {"cpu": 1, "memory": "1Gi"}), container("b", {"cpu": 1})),
        BIG,
        [LIMITS.format(1, "memory")],
        "no weight, while other containers have one",
    ),
    "no quantity, negative, nothing": (
        pod(
            container("a", {"cpu": "1 core", "memory": "-1Gi"}),
            container("b", {"cpu": "0", "memory": "1gb"}),
        ),
        BIG,
        [
            LIMITS.format(0, "cpu"),
            LIMITS.format(1, "cpu"),
            LIMITS.format(0, "memory"),
            LIMITS.format(1, "memory"),
        ],
        "without spaces",
    ),
    "a share of nothing": (
        pod(container("a", {"memory": "1Ti"}), container("b", {"memory": "1Mi"})),
        Machine(2, "1Gi"),
        [LIMITS.format(1, "memory")],
        "its share of 1024Mi would be less than 1Mi",
    ),
    "five cards for two": (
        pod(container("train"), container("helper")),
        Machine(20, "101Gi", 5),
        ["machine.gpus"],
        "5 GPUs can't be divided into whole cards among train (1), helper (1), with none left over",
    ),
    "six cards by three to one": (
        pod(container("a", B), container("b", A)),
        Machine(20, "101Gi", 6),
        ["machine.gpus"],
        "among a (3), b (1), with none left over. Use a multiple of 4",
    ),
    "several cards, one container without a limit": (
        pod(container("a", {GPU: 1}), container("b")),
        Machine(20, "101Gi", 2),
        ["spec.template.spec.containers[1].resources.limits[nvidia.com/gpu]"],
        "no weight for GPUs",
    ),
    "weights that give the cards to nobody": (
        pod(container("a")),
        Machine(20, "101Gi", 2, weights={"a": {"gpu": 0}}),
        ["machine.gpus"],
        "Give one container a weight above 0",
    ),
    "cards asked of a machine without any": (
        TWO,
        Machine(20, "101Gi"),
        ["machine.gpus"],
        "the machine has no GPU for train, helper",
    ),
    "two kinds of cards, none the default": (
        pod(container("a", {"amd.com/gpu": 1}), container("b", {"intel.com/gpu": 1})),
        BIG,
        ["machine.gpu_resource"],
        "amd.com/gpu, intel.com/gpu",
    ),
    "an init container larger than the machine": (
        pod(container("a"), init=[container("i", {"cpu": 30, "memory": "1Gi"})]),
        BIG,
        ["spec.template.spec.initContainers[0].resources.limits.cpu"],
        "the machine has 20000m for it",
    ),
    "an init container that requests more than the machine": (
        pod(container("a"), init=[{"name": "i", "resources": {"requests": {"memory": "200Gi"}}}]),
        BIG,
        ["spec.template.spec.initContainers[0].resources.limits.memory"],
        "the machine has 103424Mi for it",
    ),
    "an init container beside an earlier sidecar": (
        pod(
            container("a"),
            init=[container("s", {"cpu": 15}, restartPolicy="Always"), container("i", {"cpu": 6})],
        ),
        BIG,
        ["spec.template.spec.initContainers[1].resources.limits.cpu"],
        "the machine has 5000m for it",
    ),
    "sidecars that leave nothing": (
        pod(
            container("a"),
            init=[
                container("s", {"cpu": 15}, restartPolicy="Always"),
                container("t", {"cpu": 5}, restartPolicy="Always"),
            ],
        ),
        BIG,
        ["spec.template.spec.initContainers[1].resources.limits.cpu"],
        "must keep some for the containers",
    ),
    "an init container that wants a card": (
        pod(container("a"), init=[container("i", {GPU: 2})]),
        BIG,
        ["spec.template.spec.initContainers[0].resources.limits[nvidia.com/gpu]"],
        "the machine has 1 GPU for it",
    ),
    "an init container's broken quantity": (
        pod(container("a"), init=[container("i", {"cpu": "x"})]),
        BIG,
        ["spec.template.spec.initContainers[0].resources.limits.cpu"],
        "not a quantity",
    ),
    "weights for a container that is not there": (
        pod(container("a")),
        Machine(2, "1Gi", weights={"train": {"cpu": 1}}),
        ["machine.weights.train"],
        "Use a",
    ),
    "weights for some only": (
        pod(container("a"), container("b")),
        Machine(2, "1Gi", weights={"a": {"cpu": 1}}),
        ["machine.weights.b.cpu"],
        "no weight",
    ),
    "a budget for the whole pod": (
        {**pod(container("a")), "resources": {"limits": {"cpu": 1}}},
        BIG,
        ["spec.template.spec.resources"],
        "contradicts shares of a machine",
    ),
    "no containers": ({"containers": None}, BIG, ["spec.template.spec.containers"], "there is none"),
    "no mappings": (
        {"containers": [container("a"), "b", {"name": "c", "resources": {"limits": [1]}}]},
        BIG,
        ["spec.template.spec.containers[1]", "spec.template.spec.containers[2]"],
        "not a container",
    ),
    "everything at once": (
        pod(container("a", {"cpu": 1}), container("b"), init=[container("i", {"memory": "1Ti"})]),
        Machine("x", "101Gi", 3),
        [
            "machine.cpu",
            LIMITS.format(1, "cpu"),
            "spec.template.spec.initContainers[0].resources.limits.memory",
            "machine.gpus",
        ],
        "can't be divided",
    ),
    "a broken machine and broken weights": (
        pod(container("a")),
        Machine(0, "0", weights={"a": {"cpu": "x"}}),
        ["machine.cpu", "machine.memory", "machine.weights.a.cpu"],
        "not a quantity",
    ),
}


@pytest.mark.parametrize(
    ("given", "machine", "want_fields", "want_text"), REFUSED.values(), ids=REFUSED.keys()
)
def test_every_problem_is_named_at_once(
    given: Any, machine: Machine, want_fields: list[str], want_text: str
) -> None:
    with pytest.raises(SpecError) as raised:
        allocate(given, machine)

    assert [problem.field for problem in raised.value.problems] == want_fields
    assert want_text in str(raised.value)


def test_the_path_is_the_authors() -> None:
    with pytest.raises(SpecError, match=r"^pod\.containers\[0\]\.resources\.limits\.cpu="):
        allocate(pod(container("a", {"cpu": "x"})), BIG, path="pod")


def test_notes_say_how_many_pods_share_a_machine() -> None:
    plain = pod(container("a", {"cpu": 1, "memory": "1Gi"}))

    (shared,) = allocate(plain, Machine(20, "101Gi")).notes
    assert shared == (
        "4 pods fit one machine (20 cores, 101Gi) by their requests (decided by CPU and memory). "
        "At their limits they take 4.0 times its CPU and 4.0 times its memory"
    )
    assert allocate(TWO, BIG).notes == (
        "1 pod fits one machine (20 cores, 101Gi, 1 GPU) by its requests (decided by GPUs)",
    )


def test_notes_count_sidecars_and_init_containers() -> None:
    given = pod(
        container("a"),
        init=[
            container("s", {"cpu": 2, "memory": "1Mi"}, restartPolicy="Always"),
            {"name": "i", "resources": {"requests": {"cpu": "7"}}},
        ],
    )

    (note,) = allocate(given, Machine(18, "1Gi")).notes

    # 4 cores requested and 2 beside them; the init container wants 7 + 2.
    assert "2 pods fit" in note
    assert "2.0 times its CPU" in note


def test_guaranteed_on_a_machine_typed_in_warns() -> None:
    typed = allocate(TWO, Machine(20, "101Gi", 1, guaranteed=True)).notes
    read = allocate(TWO, Machine(20, "101Gi", 1, guaranteed=True, is_allocatable=True)).notes

    assert "must fit what is allocatable" in typed[1]
    assert len(read) == 1


AMOUNTS = st.integers(1, 10**6)
LIMIT = st.tuples(AMOUNTS, AMOUNTS)


@given(
    st.lists(LIMIT, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400), st.booleans()), max_size=3),
    st.integers(1500, 10**5),
    st.integers(1500, 10**5),
    st.booleans(),
)
def test_what_is_handed_out_never_exceeds_the_machine(
    limits: list[tuple[int, int]],
    init: list[tuple[int, int, bool]],
    cpu: int,
    memory: int,
    guaranteed: bool,
) -> None:
    given = pod(
        *(container(f"c{i}", {"cpu": f"{c}m", "memory": f"{m}Mi"}) for i, (c, m) in enumerate(limits)),
        init=[
            container(
                f"i{i}",
                {"cpu": f"{c}m", "memory": f"{m}Mi"},
                **({"restartPolicy": "Always"} if stays else {}),
            )
            for i, (c, m, stays) in enumerate(init)
        ],
    )
    try:
        got = allocate(given, Machine(f"{cpu}m", f"{memory}Mi", guaranteed=guaranteed))
    except SpecError as error:
        assert all("would be less than" in problem.why for problem in error.problems)  # noqa: PT017 - any other is a fault
        return

    for at, (resource, read, total) in enumerate((("cpu", millicores, cpu), ("memory", mebibytes, memory))):
        shares = [read(share) for share in resources(got, "limits", resource)]
        requests = [read(share) for share in resources(got, "requests", resource)]
        left = total - sum(sidecar[at] for sidecar in init if sidecar[2])
        assert sum(shares) <= left < sum(shares) + len(shares)
        assert all(1 <= request <= share for request, share in zip(requests, shares, strict=True))
        weight = sum(limit[at] for limit in limits)
        assert shares == [left * limit[at] // weight for limit in limits]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 24))
def test_all_cards_are_given_or_none(limits: list[int], cards: int) -> None:
    given = pod(*(container(f"c{i}", {GPU: n} if n else None) for i, n in enumerate(limits)))
    try:
        got = allocate(given, Machine(8, "8Gi", cards))
    except SpecError:
        return

    dealt = [int(n or 0) for n in resources(got, "limits", GPU)]
    assert sum(dealt) == cards
    if cards > 1:
        weights = limits if any(limits) else [1] * len(limits)
        assert [n * sum(weights) for n in dealt] == [cards * weight for weight in weights]
