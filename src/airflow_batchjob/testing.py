"""pytest fixtures for DAG authors: a local cluster per session, and Airflow's connection to it.

A plugin that pytest loads by itself once this package is installed. It imports next to nothing until
a test asks for one of its fixtures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_batchjob.local.reach import Reach

CONNECTION = "AIRFLOW_CONN_KUBERNETES_DEFAULT"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running local cluster, as tests see it."""

    kubeconfig: Path
    namespace: str
    reach: Reach
    """Sends requests of one's own: ``reach.ask("GET", "/apis/batch/v1/jobs")``."""

    @property
    def url(self) -> str:
        return self.reach.url

    def lose_node(self, name: str) -> None:
        """Lose a machine, as spot capacity is taken away: its processes die, its pods fail a second later.

        Raises:
            RefusedError: There is no such machine, or it is lost already.
        """
        self.reach.lose_node(name)

    def bring_back_node(self, name: str) -> None:
        """Bring a lost machine back.

        Raises:
            RefusedError: It is there, or was never declared.
        """
        self.reach.bring_back_node(name)

    def evict(self, pod: str, namespace: str | None = None) -> None:
        """Evict a pod through the eviction API.

        Raises:
            RefusedError: There is no such pod.
        """
        self.reach.evict(namespace or self.namespace, pod)


@pytest.fixture(scope="session")
def batchjob_machines() -> Path | None:
    """Override: a YAML file that declares the cluster's nodes. None: this machine and two spot machines."""
    return None


@pytest.fixture(scope="session")
def batchjob_cluster(
    tmp_path_factory: pytest.TempPathFactory, batchjob_machines: Path | None
) -> Iterator[Cluster]:
    """A local cluster in a process of its own, for the session; it ends with pytest, also with its crash."""
    from airflow_batchjob.local.daemon import Settings, start
    from airflow_batchjob.local.folder import ClusterFolder
    from airflow_batchjob.local.kubeconfig import NAMESPACE
    from airflow_batchjob.local.reach import Reach

    machines = str(batchjob_machines.absolute()) if batchjob_machines else None
    folder = ClusterFolder(tmp_path_factory.mktemp("batchjob-cluster"))
    start(Settings(folder=str(folder.path), machines=machines, ends_with=os.getpid()))
    try:
        yield Cluster(folder.kubeconfig, NAMESPACE, Reach.by_kubeconfig(folder.kubeconfig))
    finally:
        folder.stop()


@pytest.fixture
def batchjob_connection(batchjob_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point Airflow's connection ``kubernetes_default`` at the cluster for one test; its id is returned."""
    from airflow_batchjob.local.kubeconfig import airflow_connection

    monkeypatch.setenv(CONNECTION, airflow_connection(batchjob_cluster.kubeconfig))
    return "kubernetes_default"
