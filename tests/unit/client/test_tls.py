"""Certificates: whom the client trusts, and what it says of others."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.transport import Waiting
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.local.certificates import Certificates, make_certificates
from tests.unit.client.scripted import Script, answer, job, kubeconfig


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return make_certificates()


@pytest.fixture
async def tls_server(certificates: Certificates, script: Script, tmp_path: Path) -> AsyncIterator[str]:
    file = tmp_path / "server.pem"
    file.write_bytes(certificates.server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    running = TestServer(app)
    await running.start_server(ssl=context, shutdown_timeout=0.1)
    yield str(running.make_url("")).rstrip("/")
    await running.close()


def trusting(server: str, authority: Any) -> dict[str, Any]:
    text = authority if isinstance(authority, bytes) else str(authority).encode()
    tree = kubeconfig(server)
    tree["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(text).decode()
    return tree


async def test_the_authority_of_the_kubeconfig_is_trusted(
    tls_server: str, certificates: Certificates, script: Script
) -> None:
    script.says(answer(job()))

    async with await connect(
        ClusterSettings(kube_config=trusting(tls_server, certificates.authority))
    ) as client:
        assert (await client.get_job("ml", "embed")).metadata.name == "embed"


async def test_another_authority_is_refused_at_once(
    tls_server: str, script: Script, slept: list[float], waiting: Waiting
) -> None:
    script.says(answer(job()))
    settings = ClusterSettings(kube_config=trusting(tls_server, make_certificates().authority))

    async with await connect(settings, waiting=waiting) as client:
        with pytest.raises(ApiRefusedError, match="not trusted") as raised:
            await client.get_job("ml", "embed")

    assert tls_server in str(raised.value)
    assert "Give the cluster's CA" in str(raised.value)
    assert slept == []


async def test_verification_can_be_switched_off(tls_server: str, script: Script) -> None:
    script.says(answer(job()))
    settings = ClusterSettings(kube_config=kubeconfig(tls_server), disable_verify_ssl=True)

    async with await connect(settings) as client:
        assert (await client.get_job("ml", "embed")).metadata.name == "embed"
