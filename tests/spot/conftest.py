"""A task instance with a namespace of its own on the run's cluster, whose machines can be lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.target import Target
from tests.contract.asking import Asker
from tests.retries.trying import Bench


@pytest.fixture(scope="session")
def server(cluster: Target) -> Asker:
    """The API server of the session."""
    return Asker.of(cluster)


@pytest.fixture
def bench(server: Asker, cluster: Target) -> Iterator[Bench]:
    """The cluster, in a namespace that only this test uses."""
    with server.in_a_new_namespace() as api:
        yield Bench(api=api, kubeconfig=cluster.kubeconfig)
