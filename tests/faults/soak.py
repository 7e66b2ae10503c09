"""One soak: many tasks at once through the proxy, then everything is held against the truth."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from airflow_batchjob.local.reach import Reach
from tests.faults.checking import History, left_over, problems
from tests.faults.fates import Fates, Fault
from tests.faults.proxy import FaultProxy
from tests.faults.tiny_airflow import Task, TinyAirflow
from tests.faults.work import Plan, plans

_AT_ONCE = 60
_TELLS_EACH_SECONDS = 10.0


@dataclass(kw_only=True)
class Outcome:
    """What a soak has shown; `problems` is empty if all is well."""

    seed: int
    jobs: int
    problems: list[str]
    seconds: float
    generations: int
    tries: int
    faults: dict[str, int]
    seen: dict[str, int]
    requests: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        faults = sum(self.faults.values())
        return (
            f"seed {self.seed}: {self.jobs} tasks, {self.generations} Jobs, {self.tries} tries in "
            f"{self.seconds:.0f} s; {sum(self.requests.values())} requests, {faults} faults; "
            f"{', '.join(f'{what} {times}x' for what, times in sorted(self.seen.items()))}; "
            f"{len(self.problems)} problems"
        )


async def soak(seed: int, jobs: int, reach: Reach, folder: Path, *, is_local: bool = True) -> Outcome:
    """Run `jobs` tasks; the cluster must be empty before, its nodes must see this machine's files."""
    began = time.monotonic()
    history = History(reach)
    async with FaultProxy(upstream=reach, fates=Fates(seed=seed), folder=folder) as proxy:
        keeping = asyncio.ensure_future(history.keep())
        airflow = TinyAirflow(seed, proxy, folder, is_local=is_local)
        at_once = asyncio.Semaphore(_AT_ONCE)
        ended: list[Task] = []

        async def one(plan: Plan) -> Task:
            async with at_once:
                ended.append(await airflow.run(plan))
            return ended[-1]

        telling = asyncio.ensure_future(_tell(seed, jobs, ended, proxy))
        try:
            tasks = await asyncio.gather(*(one(plan) for plan in plans(seed, jobs)))
        finally:
            telling.cancel()
            await airflow.end()
        left = await left_over(reach)
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
    left = [f"{one}; {_history_of(one, tasks)}" for one in left]
    found = [*left, *history.doubled, *(wrong for task in tasks for wrong in problems(task, history))]
    return Outcome(
        seed=seed,
        jobs=jobs,
        problems=found,
        seconds=time.monotonic() - began,
        generations=len(history.jobs),
        tries=sum(task.tries for task in tasks),
        faults={fault.value: times for fault, times in proxy.done.items() if fault is not Fault.NONE},
        seen=dict(airflow.seen),
        requests=dict(proxy.requests),
    )


async def _tell(seed: int, jobs: int, ended: list[Task], proxy: FaultProxy) -> None:
    """Say how far it is, until cancelled."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(_TELLS_EACH_SECONDS)
        faults = proxy.done.total() - proxy.done[Fault.NONE]
        seconds = time.monotonic() - began
        print(
            f"seed {seed}: {len(ended)} of {jobs} tasks have ended, {faults} faults, {seconds:.0f} s",
            flush=True,
        )


def _history_of(problem: str, tasks: list[Task]) -> list[str]:
    """Return what happened to the task that a problem is about."""
    found = [task for task in tasks if f"-{task.task_id}-" in problem]
    return found[0].history if found else []
