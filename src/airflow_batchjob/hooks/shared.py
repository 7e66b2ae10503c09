"""One client per connection for all triggers of an event loop: they share its watch and its sockets.

It is opened by the first that comes and closed by the last that goes. A connection that was edited
is another connection: whoever comes later gets a new client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.client.protocol import JobClient

Connect = Callable[["ClusterSettings"], Awaitable["JobClient"]]


class _Shared:
    def __init__(self, connecting: asyncio.Task[JobClient]) -> None:
        self.connecting = connecting
        self.users = 0


_CLIENTS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def shared_client(
    settings: ClusterSettings, connect: Connect | None = None
) -> AsyncIterator[JobClient]:
    """Give the client of a cluster that this event loop's users share.

    Args:
        settings: Which cluster, and how.
        connect: Makes a client; for tests.

    Raises:
        ApiError: No client can be made of the settings.
    """
    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), {})
    key = repr(settings)
    if key not in clients:
        clients[key] = _Shared(asyncio.ensure_future(_connect(settings, connect)))
    shared = clients[key]
    shared.users += 1
    try:
        # Shielded: the first user may be cancelled while others wait for the same client.
        yield await asyncio.shield(shared.connecting)
    finally:
        shared.users -= 1
        if shared.users == 0 or _has_failed(shared):
            if clients.get(key) is shared:
                del clients[key]
            await _close(shared)


async def _connect(settings: ClusterSettings, connect: Connect | None) -> JobClient:
    if connect is not None:
        return await connect(settings)
    from airflow_batchjob.client import config

    return await config.connect(settings)


def _has_failed(shared: _Shared) -> bool:
    task = shared.connecting
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _close(shared: _Shared) -> None:
    if _has_failed(shared):
        return
    if not shared.connecting.done():
        shared.connecting.cancel()
        return
    await shared.connecting.result().close()
