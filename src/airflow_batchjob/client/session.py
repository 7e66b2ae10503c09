"""One HTTP session to a server, built from kubernetes_asyncio's Configuration.

Address, CA, client certificate, proxies and the token's refreshing come from that Configuration as
its loaders filled it. The session is ours: its TLS context is built off the event loop, connections
are kept alive, and no body ever reaches a debug log.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from airflow_batchjob.client.requests import Call

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

CONNECT_SECONDS = 10.0

# As the Kubernetes provider sets them: a silent watch outlives what stands between us and the server.
_KEEPALIVE = {"TCP_KEEPIDLE": 120, "TCP_KEEPALIVE": 120, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 6}


class Session:
    """Sends calls with the credentials of one Configuration, until it is retired and idle."""

    def __init__(self, configuration: Configuration, http: aiohttp.ClientSession) -> None:
        self._configuration = configuration
        self._host = str(configuration.host)
        self._http = http
        self._in_flight = 0
        self._retired = False

    @classmethod
    async def open(cls, configuration: Configuration, *, keepalive: bool = True) -> Session:
        """Open a session.

        Raises:
            OSError: A certificate or key cannot be read or does not fit (`ssl.SSLError`).
        """
        loop = asyncio.get_running_loop()
        tls = await loop.run_in_executor(None, _tls_context, configuration)
        connector = aiohttp.TCPConnector(limit=0, ssl=tls, **_socket_options(keepalive=keepalive))
        http = aiohttp.ClientSession(
            connector=connector,
            trust_env=True,
            headers={"User-Agent": "airflow-batchjob"},
        )
        return cls(configuration, http)

    @property
    def server(self) -> str:
        """The server's address, without a user or password in it."""
        parts = urlsplit(self._host)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def is_closed(self) -> bool:
        return self._http.closed

    async def send(self, call: Call) -> aiohttp.ClientResponse:
        """Send `call`; the answer's body is not read yet. Hand the answer to `release` when done."""
        self._in_flight += 1
        try:
            return await self._http.request(**await self._arguments(call))
        except BaseException:
            await self._left()
            raise

    async def release(self, response: aiohttp.ClientResponse) -> None:
        """Take an answer back: a body that was not read to its end closes the connection."""
        response.release()
        await self._left()

    async def retire(self) -> None:
        """Close once the last answer has been released; at once where there is none."""
        self._retired = True
        if not self._in_flight:
            await self._http.close()

    async def close(self) -> None:
        """Close now, whatever is under way."""
        self._retired = True
        await self._http.close()

    async def _left(self) -> None:
        self._in_flight -= 1
        if self._retired and not self._in_flight:
            await self._http.close()

    async def _arguments(self, call: Call) -> dict[str, Any]:
        configuration = self._configuration
        headers = {"Accept": "application/json, */*"}
        # Runs the configuration's own hook first, which reads a token file again when it is due.
        token = await configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        arguments: dict[str, Any] = {
            "method": call.method,
            "url": self._host + call.path,
            "params": dict(call.query),
            "headers": headers,
            "allow_redirects": False,  # the token is for this server alone
            "timeout": aiohttp.ClientTimeout(
                total=call.total_seconds, sock_connect=CONNECT_SECONDS, sock_read=call.read_seconds
            ),
        }
        if call.body is not None:
            headers["Content-Type"] = call.content_type
            arguments["data"] = msgspec.json.encode(call.body)
        if configuration.proxy:
            arguments["proxy"] = configuration.proxy
            arguments["proxy_headers"] = configuration.proxy_headers
        if configuration.tls_server_name:
            arguments["server_hostname"] = configuration.tls_server_name
        return arguments


def _tls_context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if getattr(configuration, "disable_strict_ssl_verification", False):
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _socket_options(*, keepalive: bool) -> dict[str, Any]:
    if keepalive and "socket_factory" in inspect.signature(aiohttp.TCPConnector).parameters:
        return {"socket_factory": _kept_alive_socket}
    return {}


def _kept_alive_socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # each system has its own set of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
