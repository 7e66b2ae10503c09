"""A running cluster's folder: who holds it, what is known of it, and how one asks for its end."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from airflow_batchjob.local.kubeconfig import write_private

STOP_SECONDS = 15.0
KILL_SECONDS = 5.0
_LOOK_SECONDS = 0.05


class AlreadyRunningError(RuntimeError):
    """Another process runs a cluster in this folder."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a running cluster says about itself in its folder."""

    pid: int
    name: str
    url: str
    started: str


def default_folder(name: str) -> Path:
    """Return where the cluster of that name lives: below the user's folder for state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "airflow-batchjob" / name


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """The folder of a cluster that runs, or does not."""

    path: Path

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.path / "cluster.log"

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @property
    def _pid(self) -> Path:
        return self.path / "pid.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for as long as this process runs a cluster in it.

        The lock, not the pid file, says that a cluster runs: it goes with the process, however that ends.

        Raises:
            AlreadyRunningError: Another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunningError(f"a cluster runs in {self.path} already") from None
            yield
        finally:
            os.close(descriptor)

    def is_held(self) -> bool:
        """Tell whether a cluster runs in the folder, or is about to."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def tell(self, running: Running) -> None:
        """Write what others want to know; only the holder does."""
        write_private(self._pid, msgspec.json.encode(running))

    def forget(self) -> None:
        """Take back what `tell` wrote."""
        self._pid.unlink(missing_ok=True)

    def running(self) -> Running | None:
        """Return what the cluster that runs here says; None: none does. A file left behind does not count."""
        if not self.is_held():
            return None
        try:
            return msgspec.json.decode(self._pid.read_bytes(), type=Running)
        except (OSError, msgspec.DecodeError):
            return None

    def stop(self) -> bool:
        """End the cluster that runs here; return False where none does.

        Raises:
            TimeoutError: It did not end, not even when killed.
        """
        running = self.running()
        if running is None:
            return False
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            if self.is_held():
                with suppress(ProcessLookupError):
                    os.kill(running.pid, number)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if not self.is_held() and _has_ended(running.pid):
                    return True
                time.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"process {running.pid} did not end within {STOP_SECONDS + KILL_SECONDS:.0f} s")


def _has_ended(pid: int) -> bool:
    with suppress(ChildProcessError):  # only who started it can, and must, take note of its end
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
