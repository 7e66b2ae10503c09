"""What runs in processes of its own, to be killed at any time: a try in a worker, and a triggerer.

Both run the product's own operator and trigger, with an Airflow around them that is made of files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import msgspec
from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms
from airflow.sdk.execution_time.timeout import timeout

from airflow_batchjob import BatchJobOperator
from airflow_batchjob.compat import AirflowFailException, TaskDeferred
from airflow_batchjob.local.kubeconfig import airflow_connection, write_private
from airflow_batchjob.testing import CONNECTION
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

FAR_AWAY_SECONDS = 3600.0
_BEGINNING_SECONDS = 0.1


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance in one try, as its processes need it."""

    task_id: str
    run_id: str
    id: str
    try_number: int
    max_tries: int
    started: datetime
    folder: str  # holds `state`, what Airflow says of the task

    @property
    def state_file(self) -> Path:
        return Path(self.folder) / "state"

    def as_task_instance(self) -> TaskInstance:
        """Return what operator and trigger read."""
        return TaskInstance(
            task_id=self.task_id,
            dag_id="soak",
            run_id=self.run_id,
            id=self.id,
            try_number=self.try_number,
            max_tries=self.max_tries,
            start_date=self.started,
        )


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker process does: begin a try, or end it with a trigger's event."""

    of: Try
    kubeconfig: str
    parameters: dict[str, Any]
    answer: str  # file
    log: str  # file
    event: dict[str, Any] | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process told Airflow before it ended."""

    state: str  # deferred, success, failed (for good) or retry
    why: str = ""
    trigger: dict[str, Any] | None = None
    xcoms: dict[str, Any] = {}
    returned: Any = None


BEGUN = "begun"
"""A file by which a worker says that it can be told to end."""

ASKED = "asked"
"""A file by which a worker says that it has asked its state, and will defer next."""


KILLED = {"killed": True}
"""In place of an event: what a user's action led to is done."""


class AirflowInFiles:
    """Answers the one question that kill hooks ask, and who is about to defer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, msg: Any) -> Any:
        assert isinstance(msg, GetTaskStates)
        (run_id,), (task_id,) = msg.run_ids, msg.task_ids
        (self._folder / task_id / ASKED).touch()
        state = (self._folder / task_id / "state").read_text()
        return TaskStatesResult(task_states={run_id: {task_id: state or None}})

    async def asend(self, msg: Any) -> Any:
        return self.send(msg)


def work(stage: Stage) -> None:
    """Run one stage of a try; the process ends with it."""
    _log_to(stage.log)
    os.environ[CONNECTION] = airflow_connection(Path(stage.kubeconfig))
    with set_supervisor_comms(cast("Any", AirflowInFiles(Path(stage.of.folder).parent))):
        told = _told(stage)
    write_private(Path(stage.answer), msgspec.json.encode(told))


def _told(stage: Stage) -> Told:
    given = dict(stage.parameters)
    seconds = given.pop("execution_timeout_seconds", None)
    if seconds is not None:
        given["execution_timeout"] = timedelta(seconds=seconds)
    task, ti, context = prepared(BatchJobOperator, stage.of.as_task_instance(), **given)
    signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    (Path(stage.of.folder) / BEGUN).touch()
    try:
        if stage.event is not None:
            returned = task.resume_execution("resume", {"event": stage.event}, context)
        else:
            with timeout(seconds or FAR_AWAY_SECONDS):
                returned = task.execute(context)
    except TaskDeferred as pause:
        _, arguments = pause.trigger.serialize()
        return Told(state="deferred", trigger=arguments, xcoms=ti.xcoms)
    except AirflowFailException as error:
        return Told(state="failed", why=f"{type(error).__name__}: {error}", xcoms=ti.xcoms)
    except BaseException as error:
        logging.getLogger(__name__).debug("the try ends", exc_info=True)
        return Told(state="retry", why=f"{type(error).__name__}: {error}", xcoms=ti.xcoms)
    return Told(state="success", xcoms=ti.xcoms, returned=returned)


def trigger_all(orders: Connection, kubeconfig: str, folder: str, log: str) -> None:
    """Be a triggerer: run what comes, tell what fires, until killed."""
    _log_to(log)
    os.environ[CONNECTION] = airflow_connection(Path(kubeconfig))
    with set_supervisor_comms(cast("Any", AirflowInFiles(Path(folder)))):
        asyncio.run(_Triggerer(orders).run())


class _Triggerer:
    def __init__(self, orders: Connection) -> None:
        self._orders = orders
        self._running: dict[str, asyncio.Task[None]] = {}
        self._killed: set[str] = set()

    async def run(self) -> None:
        over = asyncio.Event()

        def read() -> None:
            try:
                while self._orders.poll():
                    self._do(*self._orders.recv())
            except EOFError:
                over.set()

        asyncio.get_running_loop().add_reader(self._orders.fileno(), read)
        await over.wait()

    def _do(self, what: str, key: str, detail: Any) -> None:
        logging.getLogger(__name__).debug("%s %s (runs: %s)", what, key, key in self._running)
        match what:
            case "run":
                arguments, of = detail
                self._running[key] = asyncio.ensure_future(self._one(key, arguments, of))
            case "move" | "kill":
                if what == "kill":
                    self._killed.add(key)
                if key in self._running:
                    # A task that is cancelled before it has begun does not even enter its `try`.
                    asyncio.get_running_loop().call_later(_BEGINNING_SECONDS, self._running[key].cancel)
                elif what == "kill":
                    self._orders.send((key, KILLED))

    async def _one(self, key: str, arguments: dict[str, Any], of: Try) -> None:
        """Do what Airflow does around a trigger."""
        trigger = BatchJobTrigger(**arguments)
        trigger.task_instance = cast("Any", of.as_task_instance())
        try:
            async for event in trigger.run():
                self._orders.send((key, json.loads(json.dumps(event.payload))))
        except asyncio.CancelledError:
            if key in self._killed:
                await trigger.on_kill()
                self._orders.send((key, KILLED))
        except Exception as error:
            logging.getLogger(__name__).exception("trigger %s failed", key)
            self._orders.send((key, {"broken": repr(error)}))
        finally:
            await trigger.cleanup()
            self._running.pop(key, None)


def _log_to(file: str) -> None:
    """Log everything, as a debugging user does: what is printed goes there, too."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG,
        force=True,
        format="%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s: %(message)s",
    )
