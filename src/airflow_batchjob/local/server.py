"""Serves the API on loopback: TLS and a token always, nothing for browsers of other sites."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import cast

import msgspec
from aiohttp import web

from airflow_batchjob.local.api.api import Api
from airflow_batchjob.local.api.request import Request, Response, Stream
from airflow_batchjob.local.api.status import failure
from airflow_batchjob.local.store import Object

HOST = "127.0.0.1"
MOST_BODY_BYTES = 3 * 1024 * 1024  # as Kubernetes
SHUTDOWN_SECONDS = 1.0
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


class PortInUseError(OSError):
    """Somebody else listens on the port that was asked for."""


class ApiServer:
    """The API on a port of this machine.

    Args:
        api: What answers.
        token: What clients must present as bearer.
        certificate_file: Server certificate and key, PEM.
        port: 0: the system chooses.
    """

    def __init__(self, api: Api, *, token: str, certificate_file: Path, port: int = 0) -> None:
        self._api = api
        self._authorization = f"Bearer {token}".encode()
        self._certificate_file = certificate_file
        self._runner: web.AppRunner | None = None
        self.port = port

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            PortInUseError: The port is taken.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate_file)
        application = web.Application(client_max_size=MOST_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        # A client that leaves a quiet watch must not leave its handler behind.
        runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, self.port, ssl_context=context)
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise PortInUseError(f"cannot listen on {HOST}:{self.port}: {error.strerror or error}") from error
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """End watches, wait shortly for answers under way, and listen no more."""
        self._api.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request.headers)
        if refusal is not None:
            return _sent(Response(code=refusal["code"], body=refusal))
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            words = f"the body of the request is larger than {MOST_BODY_BYTES} bytes"
            return _sent(Response(code=413, body=failure(413, "RequestEntityTooLarge", words)))
        answer = self._api.handle(
            Request(
                method=request.method,
                path=request.path,
                query=dict(reversed(list(request.query.items()))),  # of repeated names the first counts
                headers={name.lower(): value for name, value in request.headers.items()},
                body=body,
            )
        )
        if isinstance(answer, Stream):
            return await _stream(request, answer)
        return _sent(answer)

    def _refusal(self, headers: Mapping[str, str]) -> Object | None:
        """Return why a request is not even looked at, or None."""
        host = headers.get("Host", "")
        name = host[: host.rindex(":")] if ":" in host.rpartition("]")[2] else host
        if name not in _NAMES:
            words = f"this server answers to 127.0.0.1 and localhost only, not to {host!r}"
            return failure(403, "Forbidden", words)
        if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return failure(403, "Forbidden", "this server answers no requests of web pages")
        sent = headers.get("Authorization", "").encode()
        if not hmac.compare_digest(sent, self._authorization):
            return failure(401, "Unauthorized", "Unauthorized")
        return None


def _sent(response: Response) -> web.Response:
    body = response.body if isinstance(response.body, bytes) else msgspec.json.encode(response.body)
    answer = web.Response(status=response.code, body=body)
    answer.headers["Content-Type"] = response.content_type
    answer.headers["Cache-Control"] = "no-cache, private"
    for warning in response.warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        answer.headers.add("Warning", f'299 - "{quoted}"')
    return answer


async def _stream(request: web.Request, stream: Stream) -> web.StreamResponse:
    answer = web.StreamResponse(
        headers={"Content-Type": stream.content_type, "Cache-Control": "no-cache, private"}
    )
    answer.enable_chunked_encoding()
    async with aclosing(cast("AsyncGenerator[bytes, None]", stream.chunks)) as chunks:
        # A client that has left wants no answer.
        with suppress(ConnectionResetError, asyncio.TimeoutError):
            await answer.prepare(request)
            async for chunk in chunks:
                await answer.write(chunk)
            await answer.write_eof()
    return answer
