"""A scripted server, and a client of it that never really waits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from airflow_batchjob.client.backoff import Patience
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.client.transport import Waiting
from tests.unit.client.scripted import Script, kubeconfig


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def server(script: Script) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    running = TestServer(app)
    await running.start_server(shutdown_timeout=0.1)
    yield str(running.make_url("")).rstrip("/")
    await running.close()


@pytest.fixture
def slept() -> list[float]:
    """The pauses that the client made, in seconds."""
    return []


@pytest.fixture
def waiting(slept: list[float]) -> Waiting:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return Waiting(patience=Patience(attempts=4, first_seconds=0.5), sleep=sleep, chance=lambda: 1.0)


@pytest.fixture
async def client(server: str, waiting: Waiting) -> AsyncIterator[KubernetesClient]:
    settings = ClusterSettings(kube_config=kubeconfig(server))
    async with await connect(settings, waiting=waiting) as connected:
        yield connected
