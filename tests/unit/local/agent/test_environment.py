"""Environment, command line and volumes' contents, as Kubernetes works them out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.local.agent.environment import ConfigError, command_line, container_env, expand

EXPANDED = {
    "a known name": ("$(A)", "1"),
    "an unknown name stays": ("$(B)", "$(B)"),
    "two dollars escape": ("$$(A)", "$(A)"),
    "inside text": ("x-$(A)-y", "x-1-y"),
    "a dollar alone": ("5$ and $A", "5$ and $A"),
    "an open bracket": ("$(A", "$(A"),
    "two dollars are one": ("$$", "$"),
    "a reference within a name": ("$(B$(A))", "$(B$(A))"),
}


@pytest.mark.parametrize(("text", "want"), EXPANDED.values(), ids=EXPANDED.keys())
def test_expand(text: str, want: str) -> None:
    assert expand(text, {"A": "1"}) == want


@given(st.text(alphabet="ab() x"))
def test_text_without_dollars_stays_as_it_is(text: str) -> None:
    assert expand(text, {"a": "1"}) == text


POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": {"batch.kubernetes.io/job-completion-index": "3"},
        "annotations": {"note": "hi"},
    },
    "spec": {
        "nodeName": "desk",
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}],
    },
}
OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    ("configmaps", "settings"): {"data": {"COLOUR": "red", "SIZE": "4"}},
    ("secrets", "keys"): {"kind": "Secret", "data": {"token": "c2VjcmV0"}},
}


def env_of(container: dict[str, Any]) -> dict[str, str]:
    full = {"name": "main", "resources": POD["spec"]["containers"][0]["resources"], **container}
    return container_env(full, POD, lambda plural, name: OBJECTS.get((plural, name)), {"cpu": "4"})


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


SOURCES: dict[str, tuple[dict[str, Any], str]] = {
    "the pod's name": (field("metadata.name"), "p"),
    "its namespace": (field("metadata.namespace"), "ns"),
    "a label": (field("metadata.labels['batch.kubernetes.io/job-completion-index']"), "3"),
    "an annotation": (field("metadata.annotations['note']"), "hi"),
    "a label that is not there": (field("metadata.labels['x']"), ""),
    "the node": (field("spec.nodeName"), "desk"),
    "an address": (field("status.podIP"), "127.0.0.1"),
    "a limit in whole cores, rounded up": ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
    "a limit in thousandths": ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
    "memory in mebibytes": ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "1024"),
    "a key of a config map": ({"configMapKeyRef": {"name": "settings", "key": "SIZE"}}, "4"),
    "a key of a secret": ({"secretKeyRef": {"name": "keys", "key": "token"}}, "secret"),
}


@pytest.mark.parametrize(("source", "want"), SOURCES.values(), ids=SOURCES.keys())
def test_value_from(source: dict[str, Any], want: str) -> None:
    assert env_of({"env": [{"name": "X", "valueFrom": source}]}) == {"X": want}


def test_values_refer_to_those_before_them() -> None:
    env = [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "2"}, {"name": "C", "value": "$(B)3"}]

    assert env_of({"env": env}) == {"A": "$(B)", "B": "2", "C": "23"}


def test_a_whole_config_map_with_a_prefix_and_an_own_value_over_it() -> None:
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
        "env": [{"name": "P_SIZE", "value": "5"}],
    }

    assert env_of(container) == {"P_COLOUR": "red", "P_SIZE": "5"}


MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "config map": ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
    "key": (
        {"configMapKeyRef": {"name": "settings", "key": "k"}},
        "couldn't find key k in ConfigMap settings",
    ),
    "secret": ({"secretKeyRef": {"name": "no", "key": "k"}}, 'secret "no" not found'),
    "field": (field("spec.nonsense"), "fieldRef spec.nonsense is not supported"),
}


@pytest.mark.parametrize(("source", "want"), MISSING.values(), ids=MISSING.keys())
def test_what_is_missing_is_named(source: dict[str, Any], want: str) -> None:
    with pytest.raises(ConfigError) as raised:
        env_of({"env": [{"name": "X", "valueFrom": source}]})

    assert str(raised.value) == want


def test_an_optional_key_that_is_missing_sets_nothing() -> None:
    source = {"configMapKeyRef": {"name": "no", "key": "k", "optional": True}}

    assert env_of({"env": [{"name": "X", "valueFrom": source}]}) == {}


def test_the_command_line_is_expanded() -> None:
    container = {"command": ["run", "$(A)"], "args": ["--b=$(B)", "$$(A)"]}

    assert command_line(container, {"A": "1", "B": "2"}) == ["run", "1", "--b=2", "$(A)"]
