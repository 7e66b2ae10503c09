"""All triggers of one connection share one client; the last that goes closes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_batchjob.client.config import ClusterSettings
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.hooks.shared import shared_client

ONE, OTHER = ClusterSettings(namespace="one"), ClusterSettings(namespace="other")


class Clients:
    """Makes clients, and counts those that are open."""

    def __init__(self, error: Exception | None = None) -> None:
        self.made = 0
        self.open = 0
        self.error = error
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def connect(self, settings: ClusterSettings) -> Any:
        await self.may_open.wait()
        if self.error is not None:
            raise self.error
        self.made += 1
        self.open += 1
        return self

    async def close(self) -> None:
        self.open -= 1


async def use(clients: Clients, settings: ClusterSettings, until: asyncio.Event) -> None:
    async with shared_client(settings, clients.connect):
        await until.wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_shares_one_client_as_long_as_it_is_used():
    clients, first, second = Clients(), asyncio.Event(), asyncio.Event()
    users = [asyncio.ensure_future(use(clients, ONE, until)) for until in (first, second)]
    await turns()
    assert (clients.made, clients.open) == (1, 1)

    first.set()
    await users[0]
    assert clients.open == 1

    second.set()
    await users[1]
    assert clients.open == 0


async def test_another_connection_has_another_client():
    clients, until = Clients(), asyncio.Event()
    users = [asyncio.ensure_future(use(clients, settings, until)) for settings in (ONE, OTHER)]
    await turns()
    assert clients.made == 2

    until.set()
    await asyncio.gather(*users)
    assert clients.open == 0


async def test_who_comes_after_the_last_has_gone_gets_a_new_one():
    clients, until = Clients(), asyncio.Event()
    until.set()

    await use(clients, ONE, until)
    await use(clients, ONE, until)

    assert (clients.made, clients.open) == (2, 0)


async def test_the_first_user_may_be_cancelled_while_another_waits_for_the_same_client():
    clients, until = Clients(), asyncio.Event()
    clients.may_open.clear()
    first, second = (asyncio.ensure_future(use(clients, ONE, until)) for _ in range(2))
    await turns()

    first.cancel()
    await turns()
    clients.may_open.set()
    await turns()
    assert clients.open == 1

    until.set()
    await second
    assert clients.open == 0


async def test_a_client_that_could_not_be_made_is_tried_again():
    clients, until = Clients(ApiRefusedError("connect", code=401)), asyncio.Event()
    with pytest.raises(ApiRefusedError):
        await use(clients, ONE, until)

    clients.error = None
    until.set()
    await use(clients, ONE, until)

    assert (clients.made, clients.open) == (1, 0)


async def test_a_user_that_leaves_before_there_is_a_client_leaves_none_behind():
    clients, until = Clients(), asyncio.Event()
    clients.may_open.clear()
    user = asyncio.ensure_future(use(clients, ONE, until))
    await turns()

    user.cancel()
    await asyncio.gather(user, return_exceptions=True)
    clients.may_open.set()
    await turns()

    assert clients.open == 0
