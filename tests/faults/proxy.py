"""A server between a client and a cluster's API, which lets things go wrong as a seed decides.

It speaks HTTPS on loopback and hands each client an account: a kubeconfig of its own, whose token it
may replace, and what it is forbidden.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from typing_extensions import Self

from airflow_batchjob.local.certificates import make_certificates
from airflow_batchjob.local.kubeconfig import kubeconfig, write_private
from airflow_batchjob.local.reach import Reach
from tests.faults.fates import Ask, Fates, Fault, ask_of

HOST = "127.0.0.1"
SILENT_SECONDS = 5.0
_LONGEST_REQUEST_SECONDS = 60.0
_PASSED_ON = ("Content-Type", "Retry-After", "Warning", "Cache-Control")
_KILLS = (Fault.CUT_BEFORE, Fault.CUT_AFTER)


class Gone(Exception):  # noqa: N818  not an error: the connection is to be cut
    """No answer, or no more of it."""


@dataclass(kw_only=True)
class Account:
    """One client.

    Attributes:
        kubeconfig: The file it connects by.
        forbidden: What it may not do, e.g. {"list pods", "watch jobs", "get pods/log"}.
        cut: Ends the client's process; None: it can't be.
        hanging: What it gets no answer to.
    """

    name: str
    kubeconfig: Path
    forbidden: frozenset[str] = frozenset()
    cut: Callable[[], None] | None = None
    hanging: frozenset[str] = frozenset()
    token: str = ""


@dataclass(kw_only=True)
class FaultProxy:
    """The server; an async context manager.

    Args:
        upstream: The cluster's API.
        fates: What goes wrong.
        folder: For certificates and kubeconfigs.
        silent_seconds: For how long a silent watch is silent, before it is cut.
    """

    upstream: Reach
    fates: Fates
    folder: Path
    silent_seconds: float = SILENT_SECONDS
    accounts: dict[str, Account] = field(default_factory=dict)  # by token
    done: Counter[Fault] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)  # by method and kind, as "list jobs"
    is_down: bool = False
    url: str = ""
    _names: dict[str, str] = field(default_factory=dict)
    _expired: set[str] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        made = make_certificates()
        self._authority = made.authority
        certificate = self.folder / "proxy.pem"
        write_private(certificate, made.server)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        application = web.Application(client_max_size=8 << 20)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0, ssl_context=context, backlog=1024)
        await site.start()
        self.url = f"https://{HOST}:{self._runner.addresses[0][1]}"
        trusted = ssl.create_default_context(cadata=self.upstream.authority)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusted, limit=0),
            headers={"Authorization": f"Bearer {self.upstream.token}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def account(self, name: str, **given: Any) -> Account:
        """Let one more client in; `given` are attributes of its account."""
        made = Account(name=name, kubeconfig=self.folder / f"{name}.kubeconfig", **given)
        self._give_token(made)
        return made

    def close_account(self, account: Account) -> None:
        """Let a client in no more."""
        self.accounts.pop(account.token, None)

    def _give_token(self, account: Account) -> None:
        self.accounts.pop(account.token, None)
        if account.token:
            self._expired.add(account.token)
        account.token = f"secret-{account.name}-{secrets.token_hex(8)}"
        self.accounts[account.token] = account
        text = kubeconfig(name="faults", url=self.url, authority=self._authority, token=account.token)
        write_private(account.kubeconfig, text.encode())

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.is_down:
            return _cut(request)
        account = self.accounts.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if account is None:
            return _status(401, "Unauthorized", "Unauthorized")
        if request.path.endswith("/selfsubjectaccessreviews"):
            return _review(await request.json(), account)
        doing = doing_of(request)
        self.requests[doing] += 1
        if doing in account.forbidden:
            return _status(403, "Forbidden", f'User "{account.name}" cannot {doing}')
        if doing in account.hanging:
            await asyncio.sleep(_LONGEST_REQUEST_SECONDS)
        ask = ask_of(request.method, request.path, request.query, self._names)
        fault = self.fates.next(ask)
        if fault in _KILLS and account.cut is None:
            fault = Fault.NONE
        self.done[fault] += 1
        try:
            return await self._answer(request, ask, fault, account)
        except (Gone, ConnectionResetError, aiohttp.ClientError):
            return _cut(request)

    async def _answer(
        self, request: web.Request, ask: Ask, fault: Fault, account: Account
    ) -> web.StreamResponse:
        if (refusal := _refusal(fault)) is not None:
            return refusal
        match fault:
            case Fault.EXPIRED_TOKEN:
                self._give_token(account)
                return _status(401, "Unauthorized", "Unauthorized")
            case Fault.RESET_BEFORE:
                raise Gone
            case Fault.CUT_BEFORE:
                assert account.cut is not None
                account.cut()
                raise Gone
            case _:
                pass
        if ask.is_watch or request.query.get("follow") == "true":
            return await self._stream(request, fault)
        return await self._once(request, fault, account)

    async def _once(self, request: web.Request, fault: Fault, account: Account) -> web.StreamResponse:
        async with self._session.request(**await self._passed_on(request)) as answer:
            body = await answer.read()
            self._learn(body)
            headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
            whole = web.Response(status=answer.status, body=body, headers=headers)
        match fault:
            case Fault.CUT_AFTER:
                assert account.cut is not None
                account.cut()
                raise Gone
            case Fault.RESET_AFTER:
                raise Gone
            case Fault.ERROR_AFTER:
                return _status(504, "Timeout", "request did not complete within the allotted timeout")
            case Fault.HALF:
                return await _half(request, whole, body)
            case Fault.SLOW:
                return await _slow(request, whole, body)
            case _:
                return whole

    async def _stream(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        lines_left = {Fault.WATCH_SILENT: 1, Fault.WATCH_RESET: 1, Fault.WATCH_HALF: 2}.get(fault)
        async with self._session.request(**await self._passed_on(request)) as answer:
            told = web.StreamResponse(status=answer.status)
            told.content_type = answer.content_type
            told.enable_chunked_encoding()
            await told.prepare(request)
            if fault is Fault.GONE_EVENT:
                await told.write(_gone_event())
            elif fault is not Fault.WATCH_ENDS:
                async for line in _lines(answer):
                    await asyncio.sleep(0)  # lets a client's end be heard between lines that come at once
                    lines_left = None if lines_left is None else lines_left - 1
                    cut = fault is Fault.WATCH_HALF and lines_left == 0
                    await told.write(line[: len(line) // 2] if cut else line)
                    if lines_left == 0:
                        break
                else:
                    fault = Fault.NONE
        if fault is Fault.WATCH_SILENT:
            await asyncio.sleep(self.silent_seconds)
        if fault in (Fault.WATCH_SILENT, Fault.WATCH_RESET):
            raise Gone
        with suppress(ConnectionResetError):
            await told.write_eof()
        return told

    async def _passed_on(self, request: web.Request) -> dict[str, Any]:
        names = ("Content-Type", "Accept")
        return {
            "method": request.method,
            "url": self.upstream.url + request.raw_path,
            "data": await request.read() or None,
            "headers": {name: request.headers[name] for name in names if name in request.headers},
        }

    def _learn(self, body: bytes) -> None:
        """Remember what a Job of some uid is called."""
        if not body.startswith(b'{"') or b'"kind":"Job"' not in body:
            return
        metadata = json.loads(body).get("metadata", {})
        if "uid" in metadata:
            self._names[metadata["uid"]] = metadata["name"]


def doing_of(request: web.Request) -> str:
    """Return what is asked, as a Role spells it: "list jobs", "get pods/log"."""
    parts = request.path.partition("/namespaces/")[2].split("/")[1:]
    resource = "/".join([*parts[:1], *parts[2:3]])
    if request.method != "GET":
        verb = {"POST": "create", "DELETE": "delete"}.get(request.method, "patch")
        return f"{verb} {resource}"
    if len(parts) > 1:
        return f"get {resource}"
    return f"{'watch' if request.query.get('watch') else 'list'} {resource}"


def _review(review: dict[str, Any], account: Account) -> web.Response:
    """Answer whether an account may do something."""
    asked = review["spec"]["resourceAttributes"]
    resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
    allowed = f"{asked['verb']} {resource}" not in account.forbidden
    return web.json_response({**review, "status": {"allowed": allowed}}, status=201)


def _refusal(fault: Fault) -> web.Response | None:
    soon = datetime.now(timezone.utc) + timedelta(seconds=1)
    busy = "the server has received too many requests and has asked us to try again later"
    match fault:
        case Fault.TOO_MANY:
            return _status(429, "TooManyRequests", busy)
        case Fault.TOO_MANY_WAIT:
            return _status(429, "TooManyRequests", busy, **{"Retry-After": "1"})
        case Fault.TOO_MANY_DATE:
            return _status(
                429, "TooManyRequests", busy, **{"Retry-After": format_datetime(soon, usegmt=True)}
            )
        case Fault.TOO_MANY_ODD:
            return _status(429, "TooManyRequests", busy, **{"Retry-After": "garbage"})
        case Fault.ERROR_500:
            return _status(500, "InternalError", "etcdserver: leader changed")
        case Fault.ERROR_502:
            return web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html")
        case Fault.ERROR_503:
            return _status(503, "ServiceUnavailable", "apiserver is shutting down", **{"Retry-After": "1"})
        case Fault.ERROR_504:
            return _status(504, "Timeout", "request did not complete within the allotted timeout")
        case Fault.GONE_ANSWER:
            return _status(410, "Expired", "too old resource version")
        case _:
            return None


def _status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(body, status=code, headers=headers)


def _gone_event() -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "too old resource version: 1 (2)",
        "reason": "Expired",
        "code": 410,
    }
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)  # nobody hears it


async def _half(request: web.Request, whole: web.Response, body: bytes) -> web.StreamResponse:
    told = web.StreamResponse(status=whole.status, headers={"Content-Type": "application/json"})
    told.content_length = len(body)
    await told.prepare(request)
    await told.write(body[: len(body) // 2])
    await asyncio.sleep(0)
    raise Gone


async def _slow(request: web.Request, whole: web.Response, body: bytes) -> web.StreamResponse:
    await asyncio.sleep(0.3)
    told = web.StreamResponse(status=whole.status, headers={"Content-Type": "application/json"})
    told.content_length = len(body)
    await told.prepare(request)
    size = len(body) // 3 + 1
    for start in range(0, len(body), size):
        await told.write(body[start : start + size])
        await asyncio.sleep(0.15)
    await told.write_eof()
    return told


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield whole lines as they come."""
    kept = b""
    async for piece in answer.content.iter_any():
        *whole, kept = (kept + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if kept:
        yield kept
