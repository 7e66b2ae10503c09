"""Sends calls until they are answered: fresh credentials on 401, another attempt on passing trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import aiohttp

from airflow_batchjob.client.backoff import Patience
from airflow_batchjob.client.errors import error_for, error_for_exception
from airflow_batchjob.client.session import Session
from airflow_batchjob.core.errors import ApiConflictError, ApiError, ApiRefusedError, ApiUnavailableError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

    from airflow_batchjob.client.requests import Call

T = TypeVar("T")

Load = Callable[[], Awaitable["Configuration"]]
"""Reads the configuration from where it comes from, each time anew: tokens expire, files change."""

MOST_AT_ONCE = 64  # requests under way; streams are not counted
_UNAUTHORIZED = 401
_MOST_RELOADS = 3  # of credentials, each of which was refused
_LONGEST_ERROR_BYTES = 65536
_LAST_TURNS_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How to wait and how to be random; tests bring their own."""

    patience: Patience = field(default_factory=Patience)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random


class Transport:
    """The way to one server. `open` it inside the event loop that uses it; `close` it there too."""

    def __init__(self, load: Load, session: Session, *, keepalive: bool, waiting: Waiting) -> None:
        self._load = load
        self._session = session
        self._retired: list[Session] = []  # streams may still be open on them
        self._keepalive = keepalive
        self.waiting = waiting
        self._reloading = asyncio.Lock()
        self._at_once = asyncio.Semaphore(MOST_AT_ONCE)

    @classmethod
    async def open(cls, load: Load, *, keepalive: bool = True, waiting: Waiting | None = None) -> Transport:
        """Load the configuration and open a session; nothing is asked of the server yet."""
        session = await Session.open(await load(), keepalive=keepalive)
        return cls(load, session, keepalive=keepalive, waiting=waiting or Waiting())

    @property
    def server(self) -> str:
        return self._session.server

    async def send(self, call: Call) -> bytes:
        """Send `call` once (again after a 401, with fresh credentials) and return the answer's body.

        Raises:
            ApiError: As `client.errors` tells from the answer.
        """
        async with self._at_once, self.stream(call) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as raised:
                raise error_for_exception(call.what, self.server, raised) from None

    async def send_patiently(self, call: Call, *, also_conflicts: bool = False) -> bytes:
        """Send `call`, again and again on passing trouble; with `also_conflicts` on a "Conflict" too."""
        return await self.patiently(lambda: self.send(call), also_conflicts=also_conflicts)

    async def patiently(self, attempt: Callable[[], Awaitable[T]], *, also_conflicts: bool = False) -> T:
        """Await `attempt()` until it is no passing trouble, or patience is at its end."""
        patience = self.waiting.patience
        made = 0
        while True:
            made += 1
            try:
                return await attempt()
            except ApiUnavailableError as trouble:
                if made >= patience.attempts:
                    raise
                asked = trouble.retry_after_seconds
            except ApiConflictError as conflict:
                if made >= patience.attempts or not also_conflicts or conflict.reason != "Conflict":
                    raise
                asked = None
            except ApiRefusedError as refused:
                # Each attempt has read the credentials anew: they may be about to be replaced.
                if refused.code != _UNAUTHORIZED or made >= _MOST_RELOADS:
                    raise
                asked = None
            await self.waiting.sleep(patience.delay_seconds(made, asked, self.waiting.chance()))

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send `call` and give the successful answer, whose body the caller reads."""
        session, response = await self._answer(call)
        try:
            if not 200 <= response.status <= 299:
                raise await self._refusal(call, response)
            yield response
        finally:
            await session.release(response)

    async def close(self) -> None:
        """Close everything, streams under way too."""
        for session in (*self._retired, self._session):
            await session.close()
        # A TLS connection that was cut short closes in the loop's next turns. A loop that ends before
        # that leaves an open socket, and says so.
        await asyncio.sleep(_LAST_TURNS_SECONDS)

    async def _answer(self, call: Call) -> tuple[Session, aiohttp.ClientResponse]:
        session = self._session
        response = await self._sent(session, call)
        if response.status != _UNAUTHORIZED:
            return session, response
        try:
            refusal = await self._refusal(call, response)
        finally:
            await session.release(response)
        session = await self._renewed(session, refusal)
        return session, await self._sent(session, call)

    async def _sent(self, session: Session, call: Call) -> aiohttp.ClientResponse:
        try:
            return await session.send(call)
        # Besides the network's: a token file that is gone, a proxy's odd address.
        except Exception as raised:  # noqa: BLE001
            raise error_for_exception(call.what, session.server, raised) from None

    async def _renewed(self, refused: Session, refusal: ApiError) -> Session:
        """Return a session with credentials read anew; one reload serves all that were refused at once."""
        async with self._reloading:
            if self._session is refused:
                try:
                    fresh = await Session.open(await self._load(), keepalive=self._keepalive)
                except ApiError as raised:
                    raise raised from refusal
                self._session = fresh
                self._retired = [*(old for old in self._retired if not old.is_closed), refused]
                await refused.retire()
            return self._session

    async def _refusal(self, call: Call, response: aiohttp.ClientResponse) -> ApiError:
        try:
            body = await response.content.read(_LONGEST_ERROR_BYTES)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            body = b""  # the code says enough
        return error_for(call.what, response.status, body, response.headers)
