"""A cluster as tests see it, whichever it is: how to reach it, and how to take its machines away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from airflow_batchjob.testing import Cluster as Local
from tests.cluster.cluster import Cluster


class Target(Protocol):
    """What tests may ask of any cluster."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def is_local(self) -> bool: ...

    def lose_node(self, name: str) -> None:
        """Take a machine away: its processes and its Node object."""

    def bring_back_node(self, name: str) -> None:
        """Bring a lost machine back."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The product's own."""

    cluster: Local
    is_local: bool = True

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    def lose_node(self, name: str) -> None:
        self.cluster.lose_node(name)

    def bring_back_node(self, name: str) -> None:
        self.cluster.bring_back_node(name)


@dataclass(frozen=True, slots=True)
class RealCluster:
    """Kubernetes itself, started by this run."""

    cluster: Cluster
    is_local: bool = False

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    def lose_node(self, name: str) -> None:
        self.cluster.lose_node(name)

    def bring_back_node(self, name: str) -> None:
        self.cluster.nodes[name].start()


@dataclass(frozen=True, slots=True)
class GivenCluster:
    """A cluster that the developer has; its machines are not ours to take away."""

    kubeconfig: Path
    is_local: bool = False

    def lose_node(self, name: str) -> None:
        pytest.skip(f"loses a machine, and {self.kubeconfig} leads to a cluster that others own")

    def bring_back_node(self, name: str) -> None:
        raise AssertionError(f"{name} was never lost")
