"""Servers as child processes: started with a log, stopped for certain, also those of a crashed run.

Each start is written down as pid and start time in the cluster's folder before anything depends on
it, so that a later run ends what an earlier one left, and never a stranger that got the same pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

STOP_GRACE_SECONDS = 5.0  # an apiserver with open watches does not leave on SIGTERM for long
LOG_LINES_SHOWN = 25  # of a server that died
LIVE_LINES_SHOWN = 8
MARK = "BATCHJOB_TEST_CLUSTER"


class ServerDiedError(RuntimeError):
    """A server ended, or was not ready in time; the message ends with its last log lines."""


def log_tail(log: Path, lines: int = LOG_LINES_SHOWN) -> str:
    """Return the last lines of a log, or "" where there is none yet."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64 * 1024))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


class Processes:
    """The servers of one cluster, by name, in the order in which they were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._record = folder / "processes.json"
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Start one server in a session of its own; its output goes to `<name>.log`."""
        with self.log_of(name).open("ab") as log:
            child = subprocess.Popen(  # the commands are ours
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {}), MARK: str(self.folder)},
                start_new_session=True,
            )
        self._children.append(child)
        self._write({**self._read(), name: [child.pid, psutil.Process(child.pid).create_time()]})

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def tail_of(self, name: str) -> str:
        """Return the last lines of a server's log; fewer while it lives."""
        return log_tail(self.log_of(name), LIVE_LINES_SHOWN if self.is_running(name) else LOG_LINES_SHOWN)

    def names(self) -> list[str]:
        """Return the servers that were started and not stopped."""
        return list(self._read())

    def dead(self) -> list[str]:
        """Return the servers that ended by themselves."""
        return [name for name in self.names() if not self.is_running(name)]

    def is_running(self, name: str) -> bool:
        process = self._process(name)
        return process is not None and process.status() != psutil.STATUS_ZOMBIE

    def wait(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()`; say why not when the server ends or the time is over."""
        end = time.monotonic() + seconds
        while not _ask(ready):
            if not self.is_running(name):
                raise ServerDiedError(f"{name} ended while starting:\n{log_tail(self.log_of(name))}")
            if time.monotonic() > end:
                raise ServerDiedError(
                    f"{name} was not ready within {seconds:.0f} s:\n{log_tail(self.log_of(name))}"
                )
            time.sleep(0.2)

    def pid_of(self, name: str) -> int:
        """Return the process id of a server that was started."""
        return self._read()[name][0]

    def kill(self, name: str) -> None:
        """End one server with SIGKILL, as a crash or a reclaimed machine does."""
        process = self._process(name)
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(STOP_GRACE_SECONDS)
        self._write({key: value for key, value in self._read().items() if key != name})

    def stop(self) -> None:
        """End all servers, the last started first: SIGTERM, then SIGKILL after a grace."""
        for name in reversed(self._read()):
            process = self._process(name)
            if process is None:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
                try:
                    process.wait(STOP_GRACE_SECONDS)
                except psutil.TimeoutExpired:
                    process.kill()
                    process.wait(STOP_GRACE_SECONDS)
        self._sweep()
        for child in self._children:
            child.poll()
        self._record.unlink(missing_ok=True)

    def _sweep(self) -> None:
        # A run killed between a start and its record leaves a server that only its environment tells of.
        # The shims of a node carry the mark too: they are the node's to end, with their containers.
        killed = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder) and "shim" not in process.name():
                    process.kill()
                    killed.append(process)
        psutil.wait_procs(killed, timeout=STOP_GRACE_SECONDS)

    def _process(self, name: str) -> psutil.Process | None:
        pid, started = self._read().get(name, (0, 0.0))
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid) if pid else None
            if process is not None and process.create_time() == started:
                return process
        return None

    def _read(self) -> dict[str, tuple[int, float]]:
        if not self._record.exists():
            return {}
        return {
            name: (int(pid), float(at)) for name, (pid, at) in json.loads(self._record.read_text()).items()
        }

    def _write(self, record: Mapping[str, object]) -> None:
        draft = self._record.with_suffix(".new")
        draft.write_text(json.dumps(record))
        draft.replace(self._record)


def _ask(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except OSError:  # refused connections while it starts
        return False
