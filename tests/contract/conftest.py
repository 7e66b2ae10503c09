"""The API that the contract is held against: of whichever cluster the run is on."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cluster.target import Target
from tests.contract.asking import Asker


@pytest.fixture(scope="session")
def server(cluster: Target) -> Asker:
    """The API server of the session."""
    server = Asker.by_kubeconfig(cluster.kubeconfig, is_local=cluster.is_local)
    return replace(server, minor=int(re.sub(r"\D", "", server.ask("GET", "/version").body["minor"])))


@pytest.fixture
def api(server: Asker) -> Iterator[Asker]:
    """The API server, in a namespace that only this test uses."""
    name = f"t-{secrets.token_hex(5)}"
    answer = server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert answer.code == 201, answer.body
    its = replace(server, namespace=name)
    # A real cluster makes the account that pods run under a moment later, and refuses pods till then.
    its.eventually(
        lambda: server.is_local or its.ask("GET", its.core("serviceaccounts", "default")).code == 200
    )
    yield its
    server.ask("DELETE", f"/api/v1/namespaces/{name}")
