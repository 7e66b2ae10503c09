"""The server's end of the launcher: starts it, sends requests, hears reports. On the event loop."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec

from airflow_batchjob.local.launcher.protocol import Mount, Report, Request, Signal, Start

__all__ = ["LauncherClient", "Mount"]

STOP_SECONDS = 10.0
HEARD_PER_TURN_BYTES = 1024  # about ten reports: each wakes a pod, and requests wait meanwhile


class LauncherClient:
    """One running launcher.

    Args:
        hear: Called on the event loop with every report.
        lost: Called on the event loop when the launcher has died by itself.
    """

    def __init__(self, hear: Callable[[Report], None], lost: Callable[[], None]) -> None:
        self._hear = hear
        self._lost = lost
        self._decoder = msgspec.json.Decoder(Report)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._unread = b""
        self._unsent = bytearray()
        self._flushing = False

    def start(self) -> None:
        """Start the launcher. Needs a running event loop."""
        ours, theirs = socket.socketpair()
        # Its own session: a Ctrl-C meant for the server must not reach it before it has done its work.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "airflow_batchjob.local.launcher", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        theirs.close()
        ours.setblocking(False)  # noqa: FBT003  the standard library's own signature
        self._connection = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read)

    @property
    def pid(self) -> int | None:
        """The launcher's process, while it runs."""
        return self._process.pid if self._process is not None else None

    def start_command(self, request: Start) -> None:
        """Ask for a command to be started; a report follows."""
        self._send(request)

    def signal(self, id_: str, number: int) -> None:
        """Send a signal to a container; SIGKILL reaches all it has started. Nothing where it has ended."""
        self._send(Signal(id=id_, number=number))

    async def stop(self) -> None:
        """End the launcher and with it everything that it has started."""
        process = self._process
        self._disconnect()
        self._process = None
        if process is None:
            return
        deadline = asyncio.get_running_loop().time() + STOP_SECONDS
        while process.poll() is None:
            if asyncio.get_running_loop().time() > deadline:
                process.kill()
            await asyncio.sleep(0.01)

    def _send(self, request: Request) -> None:
        if self._connection is None:
            return
        self._unsent += msgspec.json.encode(request) + b"\n"
        if not self._flushing:
            # Once per turn of the loop: a batch of starts is one write.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        connection = self._connection
        if connection is None:
            return
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                sent = connection.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            loop.add_writer(connection.fileno(), self._flush)
            return
        except OSError:
            self._unsent.clear()  # it is gone; the reader tells
        self._flushing = False
        loop.remove_writer(connection.fileno())

    def _read(self) -> None:
        if self._connection is None:
            return
        try:
            taken = self._connection.recv(HEARD_PER_TURN_BYTES)
        except BlockingIOError:
            return
        except OSError:
            taken = b""
        if not taken:
            self._disconnect()
            if self._process is not None:
                self._process.kill()  # dead already, or of no use without its connection
                self._process.wait()
                self._process = None
            self._lost()
            return
        *lines, self._unread = (self._unread + taken).split(b"\n")
        for line in lines:
            self._hear(self._decoder.decode(line))

    def _disconnect(self) -> None:
        if self._connection is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._connection.fileno())
            loop.remove_writer(self._connection.fileno())
            self._connection.close()
            self._connection = None
        self._unread = b""
        self._unsent.clear()
        self._flushing = False
