"""Objects of kubernetes.client and of Airflow as plain dicts, recognised by their looks."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.merge import merge_env, merge_pod
from airflow_batchjob.core.request.plain import plain


class Model:
    """What the generated models of kubernetes.client have."""

    attribute_map: dict[str, str]
    openapi_types: dict[str, str]

    def __init__(self, **given: Any) -> None:
        self.attribute_map = {name: spelling(name) for name in given}
        self.openapi_types = dict.fromkeys(given, "object")
        vars(self).update(given)

    def to_dict(self) -> dict[str, Any]:
        raise AssertionError("gives Python's spelling")


def spelling(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class Secret:
    """What airflow.providers.cncf.kubernetes.secret.Secret has."""

    def __init__(
        self,
        deploy_type: str,
        deploy_target: str | None,
        secret: str,
        key: str | None = None,
        items: Any = None,
    ) -> None:
        self.deploy_type, self.deploy_target, self.secret, self.key = deploy_type, deploy_target, secret, key
        self.items = items or []


CONVERTED = {
    "plain already": ({"a": [1, "b", None]}, {"a": [1, "b", None]}),
    "other kinds of mappings and lists": (MappingProxyType({"a": (1,)}), {"a": [1]}),
    "a model, its unset attributes left out": (
        Model(
            node_selector={"disk_type": "ssd"},
            host_pid=None,
            containers=[Model(name="main", image_pull_policy="Never")],
        ),
        {"nodeSelector": {"disk_type": "ssd"}, "containers": [{"name": "main", "imagePullPolicy": "Never"}]},
    ),
    "a model inside a dict": (
        {"volumes": [Model(name="v", empty_dir=Model())]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ),
    "a time in a model": (
        Model(deletion_timestamp=datetime(2026, 1, 2, tzinfo=timezone.utc)),
        {"deletionTimestamp": "2026-01-02T00:00:00+00:00"},
    ),
    "a secret as one variable": (
        Secret("env", "PASSWORD", "db", "pw"),
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "pw"}}},
    ),
    "a secret as all its variables": (Secret("env", None, "db"), {"secretRef": {"name": "db"}}),
    "a model class is no model": (Model, Model),
}


@pytest.mark.parametrize(("given", "want"), CONVERTED.values(), ids=CONVERTED.keys())
def test_what_stands_for_a_dict_becomes_one(given: Any, want: Any) -> None:
    assert plain(given) == want


def test_a_secret_that_is_a_file_becomes_a_volume_and_its_mount() -> None:
    secret = Secret("volume", "/etc/db", "my.db", items=[Model(key="a", path="b")])

    got = merge_pod({}, {"volumes": [secret], "containers": [{"name": "main", "volumeMounts": [secret]}]})

    (volume,), (mount,) = got["volumes"], got["containers"][0]["volumeMounts"]
    assert volume["secret"] == {"secretName": "my.db", "items": [{"key": "a", "path": "b"}]}
    assert mount == {"name": volume["name"], "mountPath": "/etc/db", "readOnly": True}
    assert volume["name"].startswith("secret-my-db-")
    other = plain({"volumes": [Secret("volume", "/etc/db", "my-db")]})["volumes"][0]
    assert other["name"] != volume["name"]


def test_the_name_of_a_secrets_volume_is_a_label() -> None:
    (volume,) = plain({"volumes": [Secret("volume", "/x", "a" * 253)]})["volumes"]

    assert len(volume["name"]) <= 63


def test_a_secret_that_is_a_file_can_not_stand_elsewhere() -> None:
    with pytest.raises(SpecError, match="needs a volume and a mount"):
        plain({"env": [Secret("volume", "/x", "s")]})


def test_a_secret_is_the_value_of_a_variable() -> None:
    assert merge_env([], {"PW": Secret("env", "OTHER", "db", "pw")}) == [
        {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "db", "key": "pw"}}}
    ]


def test_real_objects_are_recognised_in_a_process_of_their_own() -> None:
    # Importing the client takes a second or more, and warns on some versions.
    code = """
from kubernetes.client import models as k8s
from airflow_batchjob.core.request.plain import plain
pod = k8s.V1PodSpec(
    containers=[k8s.V1Container(
        name="main", env=[k8s.V1EnvVar(name="A", value="1")],
        resources=k8s.V1ResourceRequirements(limits={"nvidia.com/gpu": "1"}),
    )],
    node_selector={"disk_type": "ssd"}, host_ipc=True,
)
assert plain(pod) == {
    "containers": [{
        "name": "main", "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }],
    "nodeSelector": {"disk_type": "ssd"}, "hostIPC": True,
}, plain(pod)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
