"""A connection's name becomes a cluster, in worker and triggerer by one function."""

from __future__ import annotations

import asyncio
import json

import pytest

from airflow_batchjob.client.config import ClusterSettings
from airflow_batchjob.compat import AirflowNotFoundException
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.sharing.machine import Machine
from airflow_batchjob.hooks.batchjob import BatchJobHook


@pytest.fixture
def connection(monkeypatch):
    def define(conn_id: str, extra: object) -> None:
        text = json.dumps({"conn_type": "kubernetes", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)

    return define


def both(conn_id: str) -> list[ClusterSettings]:
    hook = BatchJobHook(conn_id)
    return [hook.settings(), asyncio.run(hook.asettings())]


def test_worker_and_triggerer_read_the_same(connection):
    connection("gpu", {"namespace": "jobs", "in_cluster": "true", "disable_verify_ssl": "false"})

    assert both("gpu") == [ClusterSettings(in_cluster=True, namespace="jobs")] * 2


def test_the_default_connection_need_not_exist():
    assert both("kubernetes_default") == [ClusterSettings()] * 2


def test_any_other_missing_connection_is_named():
    with pytest.raises(AirflowNotFoundException, match="kubernetes_conn_id='nowhere'"):
        BatchJobHook("nowhere").settings()
    with pytest.raises(AirflowNotFoundException, match="kubernetes_conn_id='nowhere'"):
        asyncio.run(BatchJobHook("nowhere").asettings())


def test_a_connection_without_extra_is_the_cluster_at_hand(connection):
    connection("bare", None)

    assert both("bare") == [ClusterSettings()] * 2


def test_an_extra_that_makes_no_sense_is_named(connection):
    connection("odd", {"in_cluster": "perhaps"})

    with pytest.raises(SpecError, match="in_cluster='perhaps'"):
        BatchJobHook("odd").settings()


def test_a_machine_is_found_in_the_connection(connection):
    connection("gpu", {"batchjob": {"machines": {"large": {"cpu": 20, "memory": "101Gi"}}}})

    assert BatchJobHook("gpu").machine("large") == Machine(cpu=20, memory="101Gi")


def test_a_machine_is_found_in_the_setting(monkeypatch):
    setting = json.dumps({"machines": {"small": {"cpu": 1, "memory": "1Gi"}}})
    monkeypatch.setenv("AIRFLOW__BATCHJOB__DEFAULTS", setting)

    assert BatchJobHook().machine("small") == Machine(cpu=1, memory="1Gi")
