"""Commands on their way: what was asked of the launcher, matched with what it reports."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import dataclass

from airflow_batchjob.local.agent.states import KILLED_CODE
from airflow_batchjob.local.launcher.client import LauncherClient
from airflow_batchjob.local.launcher.protocol import Ended, Refused, Report, Start, Started

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _UnderWay:
    start: asyncio.Future[Started | Refused]
    end: asyncio.Future[Ended]
    pid: int = 0


class LaunchedCommands:
    """Starts commands through a launcher, and another launcher where one has died."""

    def __init__(self) -> None:
        self._under_way: dict[str, _UnderWay] = {}
        self._launcher = LauncherClient(self._hear, self._lost)
        self._stopping = False

    def open(self) -> None:
        """Start the launcher. Needs a running event loop."""
        self._launcher.start()

    async def close(self) -> None:
        """End every command and the launcher."""
        self._stopping = True
        await self._launcher.stop()
        self._end_all()

    @property
    def launcher_pid(self) -> int | None:
        """The launcher's process."""
        return self._launcher.pid

    def start(self, request: Start) -> tuple[asyncio.Future[Started | Refused], asyncio.Future[Ended]]:
        """Start a command; return its start and its end, both still to come."""
        loop = asyncio.get_running_loop()
        command = _UnderWay(loop.create_future(), loop.create_future())
        if self._stopping:
            command.start.set_result(Refused(id=request.id, message="the local cluster is stopping"))
            return command.start, command.end
        self._under_way[request.id] = command
        self._launcher.start_command(request)
        return command.start, command.end

    def signal(self, id_: str, number: int) -> None:
        """Send a signal to a command; nothing where it has ended."""
        if id_ in self._under_way:
            self._launcher.signal(id_, number)

    def _hear(self, report: Report) -> None:
        command = self._under_way.get(report.id)
        if command is None:
            return
        if isinstance(report, Started):
            command.pid = report.pid
        else:
            del self._under_way[report.id]
        if isinstance(report, Ended):
            command.end.set_result(report)
        else:
            command.start.set_result(report)

    def _lost(self) -> None:
        """The launcher was killed: what it had started has no parent now. End it and start afresh."""
        _log.error("The launcher of the local cluster has died: everything that ran is counted as killed")
        for command in self._under_way.values():
            if command.pid:
                _kill_group(command.pid)
        self._end_all()
        if not self._stopping:
            self._launcher = LauncherClient(self._hear, self._lost)
            self._launcher.start()

    def _end_all(self) -> None:
        under_way, self._under_way = self._under_way, {}
        for id_, command in under_way.items():
            if not command.start.done():
                command.start.set_result(Refused(id=id_, message="the launcher died before it started"))
            elif not command.end.done():
                command.end.set_result(Ended(id=id_, exit_code=KILLED_CODE))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
