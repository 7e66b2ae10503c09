"""A namespace on the run's cluster, Airflow's connection to it, and a look at the end: nothing is left."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_batchjob.testing import CONNECTION
from tests.cluster.target import Target
from tests.contract.asking import Asker, Object
from tests.contract.living import is_over
from tests.dags.conftest import airflow_database

__all__ = ["airflow_database"]


@pytest.fixture(scope="session")
def server(cluster: Target) -> Asker:
    """The API server of the session."""
    return Asker.of(cluster)


@pytest.fixture
def api(server: Asker, cluster: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    """The cluster, in a namespace that only this test uses; nothing may run in it when the test has ended."""
    monkeypatch.setenv(CONNECTION, connection_to(cluster))
    with server.in_a_new_namespace() as api:
        yield api
        api.eventually(lambda: not left_over(api), seconds=40)


def connection_to(cluster: Target) -> str:
    """Return Airflow's connection to the cluster; its nodes bear our own label of spot and on-demand."""
    extra = {"kube_config_path": str(cluster.kubeconfig), "batchjob": {"capacity": "label"}}
    return json.dumps({"conn_type": "kubernetes", "extra": extra})


def left_over(api: Asker) -> list[Object]:
    """Return Jobs that are not over and pods that may still run."""
    jobs = [job for job in api.ask("GET", api.jobs()).body["items"] if not is_over(job)]
    pods = [
        pod
        for pod in api.ask("GET", api.core("pods")).body["items"]
        if pod["status"]["phase"] not in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]
    ]
    return [*jobs, *pods]
