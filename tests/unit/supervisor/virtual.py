"""An event loop whose clock jumps: waiting costs nothing, and hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

START = 1_800_000_000.0
"""When every test begins, in epoch seconds."""

LONGEST_SECONDS = 30 * 86_400.0


class StuckError(AssertionError):
    """Everything waits, and nothing will ever wake it."""


class _JumpingSelector(selectors.BaseSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        self._real, self._jump = selectors.DefaultSelector(), jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if ready := self._real.select(0):
            return ready
        if timeout is None:
            raise StuckError("nothing is left that could happen")
        self._jump(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer whenever nothing else is to be done."""

    def __init__(self) -> None:
        self._seconds = 0.0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        return self._seconds

    def _jump(self, seconds: float) -> None:
        self._seconds += max(0.0, seconds)
        if self._seconds > LONGEST_SECONDS:
            raise StuckError("a month has passed, and the test is not over")


def clock() -> float:
    """Return the virtual time in epoch seconds."""
    return START + asyncio.get_running_loop().time()


def virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine test on a `VirtualLoop`; tasks that it leaves behind fail it."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(test(*args, **kwargs))
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            assert not left, f"left behind: {left}"
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run
