"""Connections as people write them: JSON, URI text, the old prefix."""

from __future__ import annotations

import pytest

from airflow_batchjob.client.config import ClusterSettings
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.sharing.machine import Machine
from airflow_batchjob.hooks.connection import cluster_settings, named_machine, read_extra

CASES = {
    "an empty connection means in-cluster or kubeconfig": ({}, ClusterSettings()),
    "true as JSON": ({"in_cluster": True}, ClusterSettings(in_cluster=True)),
    "true as text, from a URI": ({"in_cluster": "True"}, ClusterSettings(in_cluster=True)),
    "false as text is not true": (
        {"in_cluster": "false", "disable_verify_ssl": "0", "disable_tcp_keepalive": "no"},
        ClusterSettings(),
    ),
    "null and empty fields of the form are not given": (
        {"in_cluster": None, "kube_config": "", "kube_config_path": "", "namespace": None},
        ClusterSettings(),
    ),
    "every field at once": (
        {
            "kube_config_path": "/etc/kube/config",
            "cluster_context": "batch",
            "namespace": "jobs",
            "disable_verify_ssl": "true",
            "disable_tcp_keepalive": "1",
        },
        ClusterSettings(
            kube_config_path="/etc/kube/config",
            cluster_context="batch",
            namespace="jobs",
            disable_verify_ssl=True,
            disable_tcp_keepalive=True,
        ),
    ),
    "names with the old prefix": (
        {"extra__kubernetes__namespace": "jobs", "extra__kubernetes__in_cluster": "true"},
        ClusterSettings(in_cluster=True, namespace="jobs"),
    ),
    "the plain name wins over the old one": (
        {"namespace": "new", "extra__kubernetes__namespace": "old"},
        ClusterSettings(namespace="new"),
    ),
    "a kubeconfig as a mapping": (
        {"kube_config": {"kind": "Config"}},
        ClusterSettings(kube_config={"kind": "Config"}),
    ),
    "fields of the provider that are not ours": (
        {"xcom_sidecar_container_image": "alpine", "namespace": "jobs"},
        ClusterSettings(namespace="jobs"),
    ),
}


@pytest.mark.parametrize(("extra", "want"), CASES.values(), ids=CASES.keys())
def test_reads_every_field_of_the_form(extra, want):
    assert cluster_settings("c", extra) == want


BAD = {
    "a flag that is neither true nor false": ({"in_cluster": "perhaps"}, "in_cluster='perhaps'"),
    "two places at once": (
        {"in_cluster": "true", "kube_config_path": "/x"},
        "in_cluster and kube_config_path",
    ),
}


@pytest.mark.parametrize(("extra", "want"), BAD.values(), ids=BAD.keys())
def test_refuses_what_makes_no_sense(extra, want):
    with pytest.raises(SpecError, match=want):
        cluster_settings("c", extra)


def test_an_extra_that_is_not_json_names_the_connection():
    with pytest.raises(SpecError, match=r"extra of connection 'gpu'.*not JSON"):
        read_extra("gpu", "{")


LARGE = Machine(cpu=20, memory="101Gi", gpus=1)
MACHINES = {"machines": {"large": {"cpu": 20, "memory": "101Gi", "gpus": 1}}}
SETTING = '{"machines": {"large": {"cpu": 20, "memory": "101Gi", "gpus": 1}}}'

FOUND = {
    "in the connection": ({"batchjob": MACHINES}, ""),
    "in the connection, as text": ({"batchjob": SETTING}, ""),
    "in the connection, under the old prefix": ({"extra__kubernetes__batchjob": MACHINES}, ""),
    "in the setting, where the connection has none": ({}, SETTING),
    "in the connection, which wins": ({"batchjob": MACHINES}, '{"machines": {"large": {"cpu": 1}}}'),
}


@pytest.mark.parametrize(("extra", "setting"), FOUND.values(), ids=FOUND.keys())
def test_finds_a_machine_by_name(extra, setting):
    assert named_machine("large", extra, setting) == LARGE


def test_an_unknown_machine_lists_the_known_ones():
    with pytest.raises(SpecError, match=r"machine='huge'.*known: large, small"):
        named_machine("huge", {"batchjob": {"machines": {"small": {}, "large": {}}}}, "")
