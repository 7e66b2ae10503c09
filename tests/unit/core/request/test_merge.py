"""A partial pod on a pod, and variables on a container's own."""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.merge import merge_env, merge_pod


def on_main(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", **fields}]}


MERGED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a field that is not there": ({}, {"priorityClassName": "low"}, {"priorityClassName": "low"}),
    "a field that is there": (
        {"restartPolicy": "Never"},
        {"restartPolicy": "OnFailure"},
        {"restartPolicy": "OnFailure"},
    ),
    "maps are merged deeply": (
        {"securityContext": {"runAsUser": 1, "seccompProfile": {"type": "A"}}},
        {"securityContext": {"fsGroup": 2, "seccompProfile": {"type": "B"}}},
        {"securityContext": {"runAsUser": 1, "fsGroup": 2, "seccompProfile": {"type": "B"}}},
    ),
    "None removes": (
        {"nodeSelector": {"a": "1", "b": "2"}, "affinity": {}},
        {"nodeSelector": {"a": None}, "affinity": None, "hostname": None},
        {"nodeSelector": {"b": "2"}},
    ),
    "None in what is new is nothing": (
        {},
        {"nodeSelector": {"a": None, "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    "a container by its name": (
        {"containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "y"}]},
        {"containers": [{"name": "side", "image": "z", "tty": True}]},
        {"containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "z", "tty": True}]},
    ),
    "a container that is new": (
        {"containers": [{"name": "main"}]},
        {"containers": [{"name": "side", "command": None}]},
        {"containers": [{"name": "main"}, {"name": "side"}]},
    ),
    "init containers by name": (
        {},
        {"initContainers": [{"name": "fetch"}]},
        {"initContainers": [{"name": "fetch"}]},
    ),
    "a container's field removed": (on_main(command=["a"]), on_main(command=None), on_main()),
    "a command is replaced": (on_main(command=["a", "b"]), on_main(command=["c"]), on_main(command=["c"])),
    "variables by name, one in place of a reference": (
        on_main(env=[{"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "B", "value": "2"}]),
        on_main(env=[{"name": "A", "value": "1"}, {"name": "C", "value": "3"}]),
        on_main(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]),
    ),
    "a reference in place of another": (
        on_main(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}]),
        on_main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        on_main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    ),
    "envFrom is appended, once": (
        on_main(envFrom=[{"secretRef": {"name": "a"}}]),
        on_main(envFrom=[{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
        on_main(envFrom=[{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
    ),
    "ports by number and protocol": (
        on_main(ports=[{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]),
        on_main(ports=[{"containerPort": 53, "protocol": "UDP", "name": "dns"}, {"containerPort": 80}]),
        on_main(
            ports=[
                {"containerPort": 53},
                {"containerPort": 53, "protocol": "UDP", "name": "dns"},
                {"containerPort": 80},
            ]
        ),
    ),
    "mounts by path": (
        on_main(volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]),
        on_main(volumeMounts=[{"name": "w", "mountPath": "/a"}, {"name": "v", "mountPath": "/c"}]),
        on_main(
            volumeMounts=[
                {"name": "w", "mountPath": "/a"},
                {"name": "v", "mountPath": "/b"},
                {"name": "v", "mountPath": "/c"},
            ]
        ),
    ),
    "a volume of another kind": (
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ),
    "a volume of the same kind": (
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
    ),
    "pull secrets by name": (
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
    ),
    "host aliases by address": (
        {"hostAliases": [{"ip": "1", "hostnames": ["a"]}]},
        {"hostAliases": [{"ip": "1", "hostnames": ["b"]}]},
        {"hostAliases": [{"ip": "1", "hostnames": ["b"]}]},
    ),
    "spread constraints by topology": (
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "x"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2}, {"topologyKey": "host"}]},
        {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "x"},
                {"topologyKey": "host"},
            ]
        },
    ),
    "tolerations are appended, once": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b", "value": None}, {"key": "a"}]},
        {"tolerations": [{"key": "a"}, {"key": "b"}]},
    ),
    "other lists are replaced": (
        {"affinity": {"nodeAffinity": {"terms": [1, 2]}}},
        {"affinity": {"nodeAffinity": {"terms": [3]}}},
        {"affinity": {"nodeAffinity": {"terms": [3]}}},
    ),
    "a probe of another kind": (
        on_main(livenessProbe={"httpGet": {"port": 1}, "periodSeconds": 3}),
        on_main(livenessProbe={"exec": {"command": ["a"]}}),
        on_main(livenessProbe={"exec": {"command": ["a"]}, "periodSeconds": 3}),
    ),
    "limits are merged": (
        on_main(resources={"limits": {"cpu": 1}}),
        on_main(resources={"limits": {"memory": "1Gi"}}),
        on_main(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    ),
    "a null in the base is nothing": (
        {"volumes": None, "nodeSelector": None},
        {"volumes": [{"name": "v"}], "nodeSelector": {"a": "1"}},
        {"volumes": [{"name": "v"}], "nodeSelector": {"a": "1"}},
    ),
    "the same item twice in the patch": (
        {},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
    ),
}


@pytest.mark.parametrize(("base", "patch", "want"), MERGED.values(), ids=MERGED.keys())
def test_a_partial_pod_is_laid_over_a_pod(
    base: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]
) -> None:
    before = deepcopy((base, patch))

    assert merge_pod(MappingProxyType(base), MappingProxyType(patch)) == want
    assert (base, patch) == before


def test_the_result_shares_nothing_with_what_was_given() -> None:
    base, patch = {"a": {"b": [1]}}, {"c": {"d": [2]}}
    merged = merge_pod(base, patch)

    merged["a"]["b"].append(3)
    merged["c"]["d"].append(3)

    assert (base, patch) == ({"a": {"b": [1]}}, {"c": {"d": [2]}})


def test_items_without_their_key_are_named_at_once() -> None:
    patch = {"containers": [{"image": "x"}, {"name": "m", "volumeMounts": [{"name": "v"}]}], "volumes": ["v"]}

    with pytest.raises(SpecError, match="without mountPath") as raised:
        merge_pod({}, patch)

    assert [problem.field for problem in raised.value.problems] == [
        "pod.containers[0]",
        "pod.containers[1].volumeMounts[0]",
        "pod.volumes[0]",
    ]


VARIABLES = st.fixed_dictionaries({"name": st.sampled_from("ab"), "value": st.sampled_from("12")})
CONTAINERS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"name": st.sampled_from("ab")},
    optional={
        "image": st.sampled_from("xy"),
        "env": st.lists(VARIABLES, unique_by=lambda item: item["name"]),
    },
)
TOLERATIONS = st.fixed_dictionaries({"key": st.sampled_from("ab")})
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12")),
        "containers": st.lists(CONTAINERS, unique_by=lambda item: str(item["name"])),
        "tolerations": st.lists(TOLERATIONS, max_size=2, unique_by=str),
    },
)


@given(PARTS, PARTS)
def test_merging_twice_is_merging_once(base: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_pod(base, patch)

    assert merge_pod(once, patch) == once
    assert merge_pod(base, {}) == base
    assert merge_pod({}, base) == base


ENV: dict[str, tuple[list[Any], dict[str, Any], list[Any]]] = {
    "new ones come last": (
        [{"name": "B", "value": "2"}],
        {"A": "1", "C": ""},
        [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}, {"name": "C", "value": ""}],
    ),
    "one that is there keeps its place": (
        [{"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "B", "value": "$(A)"}],
        {"A": "x"},
        [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)"}],
    ),
    "numbers become text": (
        [],
        {"N": 3, "X": 0.5},
        [{"name": "N", "value": "3"}, {"name": "X", "value": "0.5"}],
    ),
    "a reference": (
        [{"name": "A", "value": "1"}],
        {"A": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}},
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    ),
    "None removes": ([{"name": "A", "value": "1"}], {"A": None, "B": None}, []),
    "of two equal names the one that counts is changed": (
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        {"A": "3"},
        [{"name": "A", "value": "1"}, {"name": "A", "value": "3"}],
    ),
}


@pytest.mark.parametrize(("base", "env", "want"), ENV.values(), ids=ENV.keys())
def test_variables_are_merged_by_name(base: list[Any], env: dict[str, Any], want: list[Any]) -> None:
    assert merge_env(base, env) == want


def test_what_is_no_variable_is_refused_at_once() -> None:
    env: dict[Any, Any] = {"A": True, "B": [1], "C": {"value": "x"}, "D=E": "1", "": "1", 5: "1", "ok": "1"}

    with pytest.raises(SpecError, match='Write "true"') as raised:
        merge_env([], env)

    assert [problem.field for problem in raised.value.problems] == [
        "env['A']",
        "env['B']",
        "env['C']",
        "env['D=E']",
        "env['']",
        "env[5]",
    ]
