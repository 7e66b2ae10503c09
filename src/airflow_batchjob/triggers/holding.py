"""An event is held until a trigger is some seconds old: Airflow loses tasks that come back at once.

The process that deferred the task has ended, which its executor tells the scheduler a moment later. A
scheduler that finds the task queued again by then takes it for dead, and marks it failed.
"""

from __future__ import annotations

import asyncio

SECONDS = 5.0
"""So old is a trigger when it fires. Schedulers ask executors every second; a busy one takes several."""


class Hold:
    """Counts from where it is made, at the start of a trigger's `run`."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._clock = asyncio.get_running_loop().time
        self._due = self._clock() + seconds

    async def over(self) -> None:
        """Wait for what is left of it."""
        await asyncio.sleep(max(0.0, self._due - self._clock()))
