"""The API that the contract is held against: a local cluster, or with ``--kubeconfig`` any other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.asking import Asker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        type=Path,
        default=None,
        help="hold the contract against this cluster, not a local one",
    )


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Asker:
    """The API server of the session."""
    kubeconfig = request.config.getoption("--kubeconfig", default=None)
    if kubeconfig is not None:
        return Asker.by_kubeconfig(kubeconfig, is_local=False)
    cluster = request.getfixturevalue("batchjob_cluster")
    return Asker.by_kubeconfig(cluster.kubeconfig, is_local=True)


@pytest.fixture
def api(server: Asker) -> Iterator[Asker]:
    """The API server, in a namespace that only this test uses."""
    name = f"t-{secrets.token_hex(5)}"
    answer = server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert answer.code == 201, answer.body
    yield replace(server, namespace=name)
    server.ask("DELETE", f"/api/v1/namespaces/{name}")
