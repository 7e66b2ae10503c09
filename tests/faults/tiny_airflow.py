"""An Airflow as small as can be: tries, retries, deferrals, two triggerers, impatient users, zombies.

It keeps the promises of a real one that the product builds upon, and its processes die like real ones.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from airflow_batchjob.local.kubeconfig import write_private
from tests.faults.processes import Child, pipe
from tests.faults.proxy import Account, FaultProxy
from tests.faults.roles import ASKED, BEGUN, Stage, Told, Try, trigger_all, work
from tests.faults.work import CUTS, SCRIPT, Kind, Plan

LONGEST_TRY_SECONDS = 240.0
HOOK_SECONDS = 30.0  # as `[triggerer] on_kill_timeout`
_WORKERS = 12
_WAITING_WORKERS = 24
SIDE_RIGHTS = ("list pods", "get pods/log", "list events", "watch pods")


@dataclass(kw_only=True)
class Task:
    """A task instance and what has become of it."""

    plan: Plan
    folder: Path
    run_id: str
    tries: int = 0
    max_tries: int = 0
    state: str = "none"
    cuts_left: int = CUTS
    is_zombie: bool = False
    told: list[Told] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    @property
    def task_id(self) -> str:
        return f"task-{self.plan.number}"

    @property
    def records(self) -> Path:
        return self.folder / "records"

    def set_state(self, state: str) -> None:
        self.state = state
        self.history.append(state)
        write_private(self.folder / "state", state.encode())


class Triggerer:
    """A triggerer process that is started again whenever it is killed, with all that it had to do."""

    def __init__(self, name: str, airflow: TinyAirflow) -> None:
        self.name = name
        self._airflow = airflow
        self._wanted: dict[str, tuple[dict[str, Any], Try]] = {}
        self._events: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._orders: Connection | None = None
        self._child: Child | None = None
        self._ending = False
        self._in_hooks = 0
        self._is_dying = False
        self._sent: set[str] = set()  # triggers that the process of now runs
        self.account: Account = airflow.proxy.account(
            name, forbidden=airflow.forbidden_at_random(f"triggerer {name}"), cut=self.cut
        )
        self._keeping = asyncio.ensure_future(self._keep_up())

    def cut(self) -> None:
        if self._child is not None and not self._in_hooks:
            self._is_dying = True
            self._airflow.seen["a triggerer was killed"] += 1
            self._child.kill()

    async def fires(self, key: str, arguments: dict[str, Any], of: Try) -> dict[str, Any]:
        """Run a trigger until it fires, however often the process dies meanwhile."""
        event = self._events[key] = asyncio.get_running_loop().create_future()
        self._wanted[key] = (arguments, of)
        self._send("run", key, self._wanted[key])
        try:
            return await event
        finally:
            self._wanted.pop(key, None)
            self._events.pop(key, None)

    def move(self, key: str) -> None:
        """Cancel a trigger, which runs elsewhere from now on."""
        self._wanted.pop(key, None)
        self._send("move", key, None)

    async def kill(self, key: str, arguments: dict[str, Any], of: Try) -> None:
        """Cancel a trigger because of what a user did; return when its hook has run.

        Airflow tells a triggerer that runs, once: no other hears of it. So it is not killed meanwhile.
        """
        self._in_hooks += 1
        try:
            while self._orders is None or self._is_dying:  # noqa: ASYNC110  it is being started
                await asyncio.sleep(0.05)
            event = self._events[key] = asyncio.get_running_loop().create_future()
            if key not in self._sent:
                self._send("run", key, (arguments, of))
                await asyncio.sleep(0.2)
            self._send("kill", key, None)
            await asyncio.wait_for(event, HOOK_SECONDS)
        except asyncio.TimeoutError:
            raise TimeoutError(f"{self.name} did not end the hook of {key}") from None
        finally:
            self._in_hooks -= 1
            self._events.pop(key, None)

    async def end(self) -> None:
        self._ending = True
        if self._child is not None:
            self._child.kill()
        await self._keeping

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._ending:
            self._orders, theirs = pipe()
            log = str(self._airflow.folder / f"{self.name}.log")
            kubeconfig = str(self.account.kubeconfig)
            self._child = Child(trigger_all, theirs, kubeconfig, str(self._airflow.folder), log)
            theirs.close()
            self._is_dying = False
            self._sent.clear()
            loop.add_reader(self._orders.fileno(), partial(self._read, self._orders))
            for key, wanted in list(self._wanted.items()):
                self._send("run", key, wanted)
            await self._child.ended(3600)
            loop.remove_reader(self._orders.fileno())
            self._orders.close()
            self._orders = None

    def _send(self, what: str, key: str, detail: Any) -> None:
        if self._orders is not None:
            if what == "run":
                self._sent.add(key)
            with suppress(OSError):  # it has just died: what is wanted is told to the next
                self._orders.send((what, key, detail))

    def _read(self, orders: Connection) -> None:
        try:
            while orders.poll():
                key, payload = orders.recv()
                event = self._events.get(key)
                if event is not None and not event.done():
                    event.set_result(payload)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(orders.fileno())


class TinyAirflow:
    """Runs tasks to their end.

    Args:
        seed: Of all that it does at random.
        proxy: The way to the cluster.
        folder: Where everything is written.
        is_local: Containers are processes of this machine.
    """

    def __init__(self, seed: int, proxy: FaultProxy, folder: Path, *, is_local: bool = True) -> None:
        self.seed, self.proxy, self.folder = seed, proxy, folder
        self.is_local = is_local
        self.seen: Counter[str] = Counter()
        self.script = folder / "work.sh"
        self.script.write_text(SCRIPT)
        self._workers = asyncio.Semaphore(_WORKERS)
        self._waiting_workers = asyncio.Semaphore(_WAITING_WORKERS)
        self.triggerers = [Triggerer(name, self) for name in ("triggerer-a", "triggerer-b")]

    def rng(self, words: str) -> random.Random:
        return random.Random(f"{self.seed} {words}")

    def forbidden_at_random(self, words: str) -> frozenset[str]:
        """Return rights beside the necessary ones that an account lacks: mostly none."""
        rng = self.rng(f"rights {words}")
        return frozenset(SIDE_RIGHTS if rng.random() < 0.15 else ())

    async def end(self) -> None:
        await asyncio.gather(*(triggerer.end() for triggerer in self.triggerers))

    async def run(self, plan: Plan) -> Task:
        """Run one task until it succeeds or fails."""
        folder = self.folder / f"task-{plan.number}"
        (folder / "records").mkdir(parents=True)
        task = Task(plan=plan, folder=folder, run_id=f"soak-{self.seed}", max_tries=plan.retries)
        while task.state not in ("success", "failed"):
            task.tries += 1
            await self._try(task)
        return task

    async def _try(self, task: Task) -> None:
        task.set_state("running")
        task.is_zombie = False
        for mark in (ASKED, BEGUN):
            (task.folder / mark).unlink(missing_ok=True)
        of = Try(
            task_id=task.task_id,
            run_id=task.run_id,
            id=str(uuid.UUID(int=self.rng(f"id {task.task_id} {task.tries}").getrandbits(128))),
            try_number=task.tries,
            max_tries=task.max_tries,
            started=datetime.now(timezone.utc),
            folder=str(task.folder),
        )
        user = asyncio.ensure_future(self._user(task, of))
        try:
            told = await self._work(task, of, user)
            if told is not None and told.state == "deferred":
                task.told.append(told)
                event = await self._deferred(task, of, told.trigger or {}, user)
                if event is not None and task.state == "deferred":
                    task.set_state("running")
                    told = await self._work(task, of, user, event)
        finally:
            user.cancel()
        self._end_try(task, told)

    def _end_try(self, task: Task, told: Told | None) -> None:
        """Say what a try's end means: told by it, or by a user, or by nobody because it was killed."""
        if told is not None and told.state != "deferred":
            task.told.append(told)
            task.history.append(f"told {told.state} {told.why}"[:600])
        if task.state == "failed":
            return  # a user said so
        if task.state == "none":  # a user cleared it
            task.max_tries = task.tries + task.plan.retries
        elif told is not None and told.state in ("success", "failed"):
            task.set_state(told.state)
        elif task.tries > task.max_tries:
            task.set_state("failed")
        else:
            task.set_state("up_for_retry")

    async def _work(
        self, task: Task, of: Try, user: asyncio.Future[Any], event: dict[str, Any] | None = None
    ) -> Told | None:
        """Run one worker process; None: it was killed."""
        begins = event is None
        waits = begins and not task.plan.deferrable
        async with self._waiting_workers if waits else self._workers:
            if task.state != "running":
                return None
            name = f"worker-{task.plan.number}-{of.try_number}-{'a' if begins else 'b'}"
            account = self.proxy.account(name, forbidden=self.forbidden_at_random(name))
            stage = Stage(
                of=of,
                kubeconfig=str(account.kubeconfig),
                parameters=task.plan.operator_parameters(self.script, task.records, is_local=self.is_local),
                answer=str(task.folder / f"{name}.json"),
                log=str(task.folder / f"{name}.log"),
                event=event,
            )
            (task.folder / BEGUN).unlink(missing_ok=True)
            child = Child(work, stage)
            if task.cuts_left and task.tries <= task.max_tries:
                account.cut = partial(self._cut, task, child)
            user.add_done_callback(lambda _: child.terminate())  # its heartbeat tells it
            try:
                await child.ended(LONGEST_TRY_SECONDS)
            finally:
                self.proxy.close_account(account)
        task.history.append(f"{name} ends with {child.exit_code}")
        answer = Path(stage.answer)
        return msgspec.json.decode(answer.read_bytes(), type=Told) if answer.exists() else None

    def _cut(self, task: Task, child: Child) -> None:
        # One that is killed while it stops the Job of a task that a user has ended leaves it to nobody.
        if task.cuts_left and task.state == "running":
            task.cuts_left -= 1
            task.is_zombie = True
            task.history.append("the worker is killed")
            self.seen["a worker was killed"] += 1
            child.kill()

    async def _deferred(
        self, task: Task, of: Try, arguments: dict[str, Any], user: asyncio.Future[Any]
    ) -> dict[str, Any] | None:
        """Wait for the trigger's event; None: a user came first."""
        if task.state != "running":
            return None  # refused: a user was faster
        task.set_state("deferred")
        rng = self.rng(f"trigger {task.task_id} {of.try_number}")
        here, there = rng.sample(self.triggerers, 2)
        key = f"{task.task_id}/{of.try_number}"
        begin = partial(self._begin, key, arguments, of)
        running = {here: begin(here)}
        fate = rng.random()
        if fate < 0.2:
            self.seen["a trigger ran twice"] += 1
            running[there] = begin(there)
        elif fate < 0.5:
            await _first([*running.values(), user], rng.uniform(0, 2))
            if not running[here].done():
                self.seen["a trigger moved"] += 1
                here.move(key)
                running.pop(here).cancel()
                running[there] = begin(there)
        done = await _first([*running.values(), user], LONGEST_TRY_SECONDS)
        events = [one for one in running.values() if one in done]
        left = [triggerer for triggerer, one in running.items() if not one.done()]
        for one in running.values():
            one.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        if not events and user in done:
            await asyncio.gather(*(triggerer.kill(key, arguments, of) for triggerer in left))
        else:
            for triggerer in left:
                triggerer.move(key)
        if not done:
            raise TimeoutError(f"the trigger of {key} did not fire")
        return events[0].result() if events else None

    @staticmethod
    def _begin(key: str, arguments: dict[str, Any], of: Try, triggerer: Triggerer) -> asyncio.Future[Any]:
        return asyncio.ensure_future(triggerer.fires(key, arguments, of))

    async def _user(self, task: Task, of: Try) -> None:
        """Mark the task failed, or clear it, once its work has begun."""
        kinds = {Kind.MARKED_FAILED: "failed", Kind.CLEARED: "none"}
        if task.plan.kind not in kinds or (task.plan.kind is Kind.CLEARED and "none" in task.history):
            await asyncio.Event().wait()
        rng = self.rng(f"user {task.task_id} {of.try_number}")
        while not any(task.records.iterdir()):  # noqa: ASYNC110  files tell nobody
            await asyncio.sleep(0.1)
        await asyncio.sleep(rng.uniform(0, 1))
        # Between two tries, before a worker has begun, and between its last question and its deferral
        # Airflow has no way to tell anybody anything.
        while task.state == "running" and (  # noqa: ASYNC110
            (task.folder / ASKED).exists() or not (task.folder / BEGUN).exists()
        ):
            await asyncio.sleep(0.05)
        # Nor is there anybody to be told while its worker has died and Airflow has not noticed.
        if task.state not in ("running", "deferred") or task.is_zombie:
            return
        self.seen[f"a user: {task.plan.kind.value}"] += 1
        task.set_state(kinds[task.plan.kind])


async def _first(futures: list[asyncio.Future[Any]], limit_seconds: float) -> set[asyncio.Future[Any]]:
    """Wait until one of `futures` is done; return those that are."""
    done, _ = await asyncio.wait(futures, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED)
    return done
