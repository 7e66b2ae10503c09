"""The server: who is let in, what is too much, and that it ends as cleanly as it began."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from airflow_batchjob.local.api.api import Api
from airflow_batchjob.local.certificates import make_certificates
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.server import ApiServer, PortInUseError
from airflow_batchjob.local.store import Store

TOKEN = "let-me-in"
LIMIT_SECONDS = 10


class Served:
    """A server, and a client that trusts its authority."""

    def __init__(self, folder: Path) -> None:
        certificates = make_certificates()
        self.certificate_file = folder / "server.pem"
        self.certificate_file.write_bytes(certificates.server)
        self.context = ssl.create_default_context(cadata=certificates.authority.decode())
        self.store = Store()
        self.server = self.another(0, folder)

    def another(self, port: int, folder: Path) -> ApiServer:
        api = Api(self.store, log_store=LogStore(folder))
        return ApiServer(api, token=TOKEN, certificate_file=self.certificate_file, port=port)

    def session(self, **headers: str) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.context)
        return aiohttp.ClientSession(
            self.server.url, connector=connector, headers={"Authorization": f"Bearer {TOKEN}", **headers}
        )


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    await served.server.start()
    yield served
    await asyncio.wait_for(served.server.stop(), LIMIT_SECONDS)


HEADERS: dict[str, tuple[dict[str, str], int]] = {
    "the token": ({}, 200),
    "another token": ({"Authorization": "Bearer let-me-out"}, 401),
    "the token under another scheme": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "by the name localhost": ({"Host": "localhost:1"}, 200),
    "by the address of version 6": ({"Host": "[::1]:1"}, 200),
    "by a name that leads here by DNS": ({"Host": "evil.example.com"}, 403),
    "by a name that begins like ours": ({"Host": "127.0.0.1.example.com:1"}, 403),
    "from a page of another site": ({"Origin": "https://evil.example.com"}, 403),
    "from a page, without saying which": ({"Sec-Fetch-Site": "cross-site"}, 403),
}


@pytest.mark.parametrize(("headers", "want"), HEADERS.values(), ids=HEADERS.keys())
async def test_who_is_let_in(served: Served, headers: dict[str, str], want: int) -> None:
    async with served.session(**headers) as session, session.get("/api/v1/nodes") as answer:
        body = await answer.json()

    assert answer.status == want
    assert want == 200 or (body["kind"], body["code"]) == ("Status", want)


async def test_nothing_is_answered_without_encryption(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{served.server.port}/version")


async def test_a_body_that_is_too_large_is_refused(served: Served) -> None:
    async with (
        served.session() as session,
        session.post("/api/v1/namespaces", data=io.BytesIO(b" " * (4 * 1024 * 1024))) as answer,
    ):
        body = await answer.json()

    assert (answer.status, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_of_a_parameter_given_twice_the_first_counts(served: Served) -> None:
    for name in ("a", "b"):
        served.store.create("nodes", {"metadata": {"name": name}})

    async with (
        served.session() as session,
        session.get("/api/v1/nodes?limit=1&limit=2") as answer,
    ):
        body = await answer.json()

    assert len(body["items"]) == 1


async def test_a_watch_tells_at_once_and_is_forgotten_when_its_client_leaves(served: Served) -> None:
    async with served.session() as session, session.get("/api/v1/nodes?watch=1") as answer:
        served.store.create("nodes", {"metadata": {"name": "a"}})
        line = await asyncio.wait_for(answer.content.readline(), LIMIT_SECONDS)
        watchers = served.server._api._watches._wakers["nodes"]
        assert len(watchers) == 1

    event: dict[str, Any] = json.loads(line)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")

    async def forgotten() -> None:
        while watchers:  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.01)  # the server notices by itself, and tells nobody

    await asyncio.wait_for(forgotten(), LIMIT_SECONDS)


async def test_a_port_that_is_taken_is_named(served: Served, tmp_path: Path) -> None:
    with pytest.raises(PortInUseError, match=str(served.server.port)):
        await served.another(served.server.port, tmp_path).start()


async def test_stopping_ends_the_watches(tmp_path: Path) -> None:
    served = Served(tmp_path)
    await served.server.start()
    async with served.session() as session, session.get("/api/v1/nodes?watch=1") as answer:
        await asyncio.wait_for(served.server.stop(), LIMIT_SECONDS)

        assert await asyncio.wait_for(answer.content.read(), LIMIT_SECONDS) == b""
