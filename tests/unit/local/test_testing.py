"""The pytest plugin: it costs nothing until a fixture is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from airflow_batchjob.testing import CONNECTION, Cluster

HEAVY = (
    "aiohttp",
    "airflow",
    "airflow_batchjob.local",
    "cryptography",
    "kubernetes_asyncio",
    "psutil",
    "yaml",
)


def test_loading_it_imports_nothing_heavy() -> None:
    code = f"import airflow_batchjob.testing, sys; print([m for m in {HEAVY} if m in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "[]"


def test_the_connection_leads_to_the_cluster(
    batchjob_cluster: Cluster, batchjob_connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert batchjob_connection == "kubernetes_default"
    assert str(batchjob_cluster.kubeconfig) in os.environ[CONNECTION]
    namespace = batchjob_cluster.reach.ask("GET", f"/api/v1/namespaces/{batchjob_cluster.namespace}")
    assert namespace["metadata"]["name"] == batchjob_cluster.namespace
