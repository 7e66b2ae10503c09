"""The API that the contract is held against: of whichever cluster the run is on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.target import Target
from tests.contract.asking import Asker


@pytest.fixture(scope="session")
def server(cluster: Target) -> Asker:
    """The API server of the session."""
    return Asker.of(cluster)


@pytest.fixture
def api(server: Asker) -> Iterator[Asker]:
    """The API server, in a namespace that only this test uses."""
    with server.in_a_new_namespace() as api:
        yield api
