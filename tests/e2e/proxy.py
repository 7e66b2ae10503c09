"""A door between Airflow and the cluster's API that a test can shut, or make slow.

Bytes pass as they are, so TLS and tokens hold end to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_LIMIT_SECONDS = 10.0


class Door:
    """Listens on a port of 127.0.0.1 and passes on to another; runs in a thread of its own."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.delay_seconds = 0.0
        """Before each piece of an answer."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._open())

    def shut(self) -> None:
        """Cut every connection and refuse new ones."""
        self._run(self._shut())

    def open(self) -> None:
        """Let through again, on the same port."""
        self._run(self._open())

    def close(self) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT_SECONDS)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_LIMIT_SECONDS)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._pass(reader, writer)
        finally:
            self._passing.discard(task)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        ways = [
            asyncio.ensure_future(self._copy(reader, to_writer, is_answer=False)),
            asyncio.ensure_future(self._copy(to_reader, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_writer.transport.abort()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await reader.read(65_536):
            if is_answer and self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            writer.write(data)
            await writer.drain()
