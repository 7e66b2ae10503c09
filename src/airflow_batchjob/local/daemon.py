"""Runs a cluster in a process of its own: in the foreground, or started in the background and waited for."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import psutil

from airflow_batchjob.local.cluster import LocalCluster
from airflow_batchjob.local.folder import AlreadyRunningError, ClusterFolder, Running
from airflow_batchjob.local.nodes.losses import LossRate
from airflow_batchjob.local.nodes.machines import MachinesError, load_machines
from airflow_batchjob.local.server import PortInUseError
from airflow_batchjob.local.store import format_time

READY_SECONDS = 30.0
_LINES_OF_LOG = 5
_LOOK_AFTER_OWNER_SECONDS = 1.0
# A full collection looks at every object of the cluster: with thousands of pods, tenths of a second in
# which nobody is answered. They hold no cycles; what does is small and can wait.
_YOUNG_COLLECTIONS_TO_A_FULL_ONE = 1000


class StartError(RuntimeError):
    """The cluster did not start; the message says why."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a cluster. Goes to the background process as JSON."""

    folder: str
    """The cluster's own, absolute."""
    name: str = "batchjob-local"
    port: int = 0
    machines: str | None = None
    """File that declares the nodes, absolute."""
    spot_loss_seconds: float | None = None
    """Mean time between two losses of one spot machine; None: none is lost by itself."""
    seed: int = 0
    ends_with: int | None = None
    """A process whose end, however it comes, is the cluster's end too; None: it runs until it is stopped."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """Where to say that the cluster runs, or why it does not: one line, then the end of the file."""

    descriptor: int | None

    def say(self, line: str) -> None:
        if self.descriptor is not None:
            with suppress(OSError):  # nobody waits any more
                os.write(self.descriptor, line.encode() + b"\n")
                os.close(self.descriptor)


async def run(settings: Settings, say_ready: _Ready = _Ready(None)) -> None:
    """Run a cluster until SIGTERM or SIGINT.

    Raises:
        StartError: It cannot start: the folder or the port is taken, the machines are declared wrongly.
    """
    gc.set_threshold(*gc.get_threshold()[:2], _YOUNG_COLLECTIONS_TO_A_FULL_ONE)
    folder = ClusterFolder(Path(settings.folder))
    try:
        machines = load_machines(Path(settings.machines)) if settings.machines else None
        losses = None
        if settings.spot_loss_seconds:
            losses = LossRate(mean_seconds=settings.spot_loss_seconds, seed=settings.seed)
        with folder.held():
            cluster = LocalCluster(
                folder.path, machines=machines, port=settings.port, name=settings.name, losses=losses
            )
            await _until_asked_to_stop(cluster, folder, settings, say_ready)
    except (AlreadyRunningError, PortInUseError, MachinesError) as error:
        raise StartError(str(error)) from error


async def _until_asked_to_stop(
    cluster: LocalCluster, folder: ClusterFolder, settings: Settings, say_ready: _Ready
) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        async with cluster:
            started = format_time(datetime.now(timezone.utc))
            folder.tell(Running(pid=os.getpid(), name=settings.name, url=cluster.url, started=started))
            say_ready.say("ready")
            while not asked.is_set() and _lives(settings.ends_with):
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asked.wait(), _LOOK_AFTER_OWNER_SECONDS)
    finally:
        folder.forget()


def _lives(owner: int | None) -> bool:
    # A dead process whose parent has not asked for it yet still has its number.
    if owner is None:
        return True
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(owner).status() != psutil.STATUS_ZOMBIE
    return False


def start(settings: Settings, *, limit_seconds: float = READY_SECONDS) -> Running:
    """Start a cluster in the background, in a session of its own, and wait until it answers.

    Raises:
        StartError: It did not come up; the message has its reason, or the end of its log.
    """
    folder = ClusterFolder(Path(settings.folder))
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.path.chmod(0o700)
    words = [sys.executable, "-m", __name__, "--settings", msgspec.json.encode(settings).decode()]
    reader, writer = os.pipe()
    try:
        with folder.log.open("ab") as log:
            os.fchmod(log.fileno(), 0o600)
            process = subprocess.Popen(
                [*words, "--ready-fd", str(writer)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(writer,),
                start_new_session=True,
                cwd="/",  # a folder that may be removed while the cluster runs
            )
        os.close(writer)
        line = _first_line(reader, limit_seconds)
    finally:
        os.close(reader)
    if line == "ready" and (running := folder.running()) is not None:
        # The process outlives this one, which must not be told off for leaving it alone.
        process.returncode = 0
        return running
    process.kill()
    process.wait()
    raise StartError(line or f"it said nothing within {limit_seconds:.0f} s. {_end_of(folder.log)}")


def _first_line(descriptor: int, limit_seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], limit_seconds)
    return os.read(descriptor, 65_536).decode(errors="replace").strip() if ready else ""


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:]
    return f"{log} ends: " + " | ".join(lines) if lines else f"{log} is empty"


def main() -> int:
    """Run in the background: started by `start`, not by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True)
    parser.add_argument("--ready-fd", type=int)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    ready = _Ready(arguments.ready_fd)
    try:
        asyncio.run(run(msgspec.json.decode(arguments.settings, type=Settings), ready))
    except StartError as error:
        ready.say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
