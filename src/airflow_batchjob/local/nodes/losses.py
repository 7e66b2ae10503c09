"""Spot machines that are lost by themselves: at a rate, the same ones at the same times for one seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_batchjob.local.nodes.machines import Capacity
from airflow_batchjob.local.nodes.runtime import NodeKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRate:
    """How often spot machines are lost."""

    mean_seconds: float
    """Between two losses of one machine, counted from when it is (back) there."""
    back_after_seconds: float = 10.0
    """How long a machine stays away."""
    seed: int = 0
    warning_seconds: float = 0.0
    """From the warning (a taint, and the eviction of its pods) to the loss; 0 for none."""


def times_to_loss(rate: LossRate, machine: str) -> Iterator[float]:
    """Yield how many seconds a machine is there before each of its losses, without end.

    Losses come at random without memory, so the times are exponentially distributed. Each machine
    draws from its own stream: adding one changes nothing for the others.
    """
    stream = random.Random(f"{rate.seed}/{machine}")  # noqa: S311  to be repeated, not to be secret
    while True:
        yield stream.expovariate(1.0 / rate.mean_seconds)


class SpotLosses:
    """Loses the spot machines at a rate, and brings them back.

    Args:
        nodes: Loses and brings back.
        rate: How often.
    """

    def __init__(self, nodes: NodeKeeper, rate: LossRate) -> None:
        self._nodes = nodes
        self._rate = rate
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Begin. Needs a running event loop."""
        for machine in self._nodes.machines:
            if machine.capacity is Capacity.SPOT:
                self._wait(machine.name, times_to_loss(self._rate, machine.name))

    def stop(self) -> None:
        """Lose none any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _wait(self, name: str, times: Iterator[float]) -> None:
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(next(times), self._lose, name, times)

    def _lose(self, name: str, times: Iterator[float]) -> None:
        rate = self._rate
        if rate.warning_seconds > 0:
            self._nodes.reclaim(
                name, grace_seconds=rate.warning_seconds, back_after_seconds=rate.back_after_seconds
            )
        else:
            self._nodes.lose(name, back_after_seconds=rate.back_after_seconds)
        away = rate.warning_seconds + rate.back_after_seconds
        self._timers[name] = asyncio.get_running_loop().call_later(away, self._wait, name, times)
