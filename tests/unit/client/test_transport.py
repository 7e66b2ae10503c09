"""Credentials that expire, servers that never answer, and what is left open."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from airflow_batchjob.client import requests
from airflow_batchjob.client.config import ClusterConfig, ClusterSettings, connect
from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.client.transport import Transport, Waiting
from airflow_batchjob.core.errors import ApiRefusedError, ApiUnavailableError
from tests.unit.client.scripted import Answer, Script, answer, job, kubeconfig, refusal

GET = requests.get_job("ml", "embed")


@pytest.fixture
async def transport(server: str, waiting: Waiting) -> AsyncIterator[Transport]:
    async def load() -> Any:
        return (await ClusterConfig.kubeconfig_content(kubeconfig(server)).loaded()).configuration

    opened = await Transport.open(load, waiting=waiting)
    yield opened
    await opened.close()


def never() -> Answer:
    async def give(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return give


async def test_a_server_that_never_answers_is_given_up(transport: Transport, script: Script) -> None:
    script.says(never())

    with pytest.raises(ApiUnavailableError, match="did not answer in time"):
        await transport.send(replace(GET, read_seconds=0.05))


async def test_a_proxys_password_is_in_no_traceback(
    server: str, script: Script, waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    tree = kubeconfig("https://api.example.com")
    tree["clusters"][0]["cluster"]["proxy-url"] = server.replace("//", "//user:hunter2@")
    caplog.set_level("DEBUG")
    script.says(answer("who are you?", 407))

    async with await connect(ClusterSettings(kube_config=tree), waiting=waiting) as client:
        with pytest.raises(ApiUnavailableError, match="the proxy before") as asked:
            await client.get_job("ml", "embed")
        with pytest.raises(ApiUnavailableError, match="the proxy before") as watched:
            await anext(aiter(client.watch_jobs("ml", "a=b", "1")))

    for raised in (asked, watched):
        assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    assert "hunter2" not in caplog.text
    assert "ClientHttpProxyError" in caplog.text


async def test_a_server_that_dribbles_is_given_up(transport: Transport, script: Script) -> None:
    async def dribble(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    script.says(dribble)

    with pytest.raises(ApiUnavailableError, match="did not answer in time"):
        await transport.send(replace(GET, total_seconds=0.1))


async def test_a_server_that_is_not_there_is_named_with_the_mend(waiting: Waiting, unused_port: int) -> None:
    settings = ClusterSettings(kube_config=kubeconfig(f"http://127.0.0.1:{unused_port}"))

    async with await connect(settings, waiting=waiting) as client:
        with pytest.raises(ApiUnavailableError) as raised:
            await client.get_job("ml", "embed")

    assert f"http://127.0.0.1:{unused_port} cannot be reached" in str(raised.value)
    assert "Check that the cluster runs" in str(raised.value)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---------------------------------------------------------------- credentials


@pytest.fixture
def kubeconfig_file(server: str, tmp_path: Path) -> Path:
    file = tmp_path / "config"
    write(file, server, "first")
    return file


def write(file: Path, server: str, token: str) -> None:
    file.write_text(yaml.safe_dump(kubeconfig(server, token=token)))


@pytest.fixture
async def from_file(kubeconfig_file: Path, waiting: Waiting) -> AsyncIterator[KubernetesClient]:
    settings = ClusterSettings(kube_config_path=str(kubeconfig_file))
    async with await connect(settings, waiting=waiting) as connected:
        yield connected


def only_for(token: str) -> Answer:
    async def give(request: web.Request) -> web.StreamResponse:
        said = answer(job()) if request.headers.get("Authorization") == f"Bearer {token}" else refusal(401)
        return await said(request)

    return give


async def test_an_expired_token_is_read_anew(
    from_file: KubernetesClient, script: Script, kubeconfig_file: Path, server: str, slept: list[float]
) -> None:
    script.says(only_for("second"))
    write(kubeconfig_file, server, "second")

    got = await from_file.get_job("ml", "embed")

    assert got.metadata.name == "embed"
    assert slept == []


async def test_credentials_may_expire_any_number_of_times(
    from_file: KubernetesClient, script: Script, kubeconfig_file: Path, server: str
) -> None:
    for token in ("second", "third", "fourth", "fifth", "sixth"):
        script.says(only_for(token))
        write(kubeconfig_file, server, token)

        assert (await from_file.get_job("ml", "embed")).metadata.name == "embed"


async def test_fresh_credentials_that_are_refused_too_are_final(
    from_file: KubernetesClient, script: Script
) -> None:
    script.says(refusal(401, "Unauthorized"))

    with pytest.raises(ApiRefusedError, match="Check the connection's credentials"):
        await from_file.get_job("ml", "embed")

    assert len(script.requests) == 6  # thrice, each time with credentials as used and as read anew


async def test_credentials_that_are_about_to_be_replaced_are_read_again(
    from_file: KubernetesClient, script: Script
) -> None:
    script.says(*[refusal(401, "Unauthorized")] * 3, answer(job()))

    assert (await from_file.get_job("ml", "embed")).metadata.name == "embed"


async def test_many_refused_at_once_reload_once(server: str, script: Script, waiting: Waiting) -> None:
    loads = []

    async def load() -> Any:
        loads.append(1)
        token = "first" if len(loads) == 1 else "second"
        return (
            await ClusterConfig.kubeconfig_content(kubeconfig(server, token=token)).loaded()
        ).configuration

    script.says(only_for("second"))
    transport = await Transport.open(load, waiting=waiting)

    await asyncio.gather(*(transport.send(GET) for _ in range(20)))
    await transport.close()

    assert len(loads) == 2


async def test_a_watch_under_way_outlives_a_reload(server: str, script: Script, waiting: Waiting) -> None:
    go_on = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n')
        await go_on.wait()
        await response.write(b'{"type": "ADDED", "object": {"metadata": {"name": "b"}}}\n')
        return response

    script.says(slow, refusal(401), answer(job()))
    settings = ClusterSettings(kube_config=kubeconfig(server))
    async with await connect(settings, waiting=waiting) as client:
        watch = client.watch_jobs("ml", "", "1")
        first = await anext_of(watch)
        await client.get_job("ml", "embed")
        go_on.set()
        second = await anext_of(watch)

    assert [first.object.metadata.name, second.object.metadata.name] == ["a", "b"]


async def test_closing_closes_what_a_reload_left_open(server: str, script: Script, waiting: Waiting) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n')
        await asyncio.Event().wait()
        return response

    script.says(endless, refusal(401), answer(job()))
    client = await connect(ClusterSettings(kube_config=kubeconfig(server)), waiting=waiting)
    watch = client.watch_jobs("ml", "", "1")
    await anext_of(watch)
    await client.get_job("ml", "embed")

    await client.close()

    with pytest.raises((ApiUnavailableError, StopAsyncIteration)):
        await asyncio.wait_for(anext_of(watch), 5)


async def anext_of(iterator: Any) -> Any:
    return await iterator.__anext__()


async def test_a_watch_left_early_closes_its_connection(client: KubernetesClient, script: Script) -> None:
    left = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n')
                await asyncio.sleep(0.005)
        finally:
            left.set()

    script.says(endless)
    watch: Any = client.watch_jobs("ml", "", "1")
    await anext_of(watch)
    await watch.aclose()

    await asyncio.wait_for(left.wait(), 5)


async def test_a_redirect_is_not_followed_with_our_token(client: KubernetesClient, script: Script) -> None:
    script.says(answer("", 302, Location="/elsewhere"))

    with pytest.raises(ApiRefusedError):
        await client.get_job("ml", "embed")

    assert len(script.requests) == 1
