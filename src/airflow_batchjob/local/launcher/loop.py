"""The launcher's loop: requests in, outputs to their logs, ends noticed, memory held. One thread."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from airflow_batchjob.local.launcher import processes
from airflow_batchjob.local.launcher.container import Container, StartRefused
from airflow_batchjob.local.launcher.output import Output
from airflow_batchjob.local.launcher.protocol import Ended, Refused, Report, Request, Signal, Start, Started

MEMORY_SAMPLE_SECONDS = 0.25  # what a command allocates and frees between two samples is not seen
SWEEP_SECONDS = 0.25  # between two looks for processes that have left their container's group
LAST_KILL_SECONDS = 5.0  # what SIGKILL has not ended by then sits in the kernel
# Hundreds of starts may come at once: their reports, and the ends of the first, are not to wait for the last.
OBEYED_AT_ONCE = 16
_TAKEN_AT_ONCE = 1024 * 1024


class Launcher:
    """Serves one connection; when it closes, everything started is killed and the process ends.

    Args:
        connection: To the server.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._by_id: dict[str, Container] = {}
        self._by_pid: dict[int, Container] = {}
        self._requests = msgspec.json.Decoder(Request)
        self._asked: deque[Request] = deque()
        self._reports: list[Report] = []
        self._unread = b""
        self._open = True
        self._next_sample = 0.0
        self._next_sweep = 0.0
        self._sweeping = False
        """Something of an ended container may still be there."""

    def run(self) -> None:
        """Serve until the connection closes."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        processes.adopt_orphans()
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._watch(woken, lambda: _drain(woken))
        self._watch(self._connection.fileno(), self._read)
        while self._open:
            for key, _ in self._selector.select(self._patience()):
                key.data()
            self._obey_some()
            self._reap()
            self._sample()
            self._sweep()
            self._send()
        self._kill_all()

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, handler)

    def _patience(self) -> float | None:
        if self._asked:
            return 0.0
        now, waits = time.monotonic(), []
        if self._limited():
            waits.append(self._next_sample - now)
        if self._sweeping:
            waits.append(self._next_sweep - now)
        return max(0.0, min(waits)) if waits else None

    def _read(self) -> None:
        try:
            taken = self._connection.recv(_TAKEN_AT_ONCE)
        except ConnectionError:
            taken = b""
        if not taken:
            self._open = False
            return
        *lines, self._unread = (self._unread + taken).split(b"\n")
        self._asked.extend(self._requests.decode(line) for line in lines)

    def _obey_some(self) -> None:
        for _ in range(min(len(self._asked), OBEYED_AT_ONCE)):
            self._obey(self._asked.popleft())

    def _obey(self, request: Request) -> None:
        if isinstance(request, Start):
            self._start(request)
            return
        container = self._by_id.get(request.id)
        if container is not None:
            self._signal(container, request)

    def _start(self, request: Start) -> None:
        try:
            container = Container.start(request)
        except StartRefused as refusal:
            self._reports.append(Refused(id=request.id, message=str(refusal)))
            return
        self._by_id[request.id] = container
        self._by_pid[container.pid] = container
        for output in container.outputs:
            self._watch(output.descriptor, partial(self._pump, output))
        self._reports.append(Started(id=request.id, pid=container.pid))

    def _signal(self, container: Container, request: Signal) -> None:
        if request.number == signal.SIGKILL:
            processes.kill_tree(container.pid)
        else:
            processes.signal_group(container.pid, request.number)

    def _pump(self, output: Output) -> None:
        # A pipe's end is no end of the container: it may close its output and go on.
        if not output.pump():
            self._selector.unregister(output.descriptor)

    def _reap(self) -> None:
        ended: list[tuple[Container, int]] = []
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                container = self._by_pid.pop(pid, None)
                if container is not None:
                    ended.append((container, os.waitstatus_to_exitcode(status)))
        if not ended:
            return
        # A container lives as long as its first process: the rest of it goes now.
        for container, _ in ended:
            del self._by_id[container.id]
            processes.signal_group(container.pid, signal.SIGKILL)
        self._kill_strays()
        for container, code in ended:
            self._report_end(container, code)

    def _report_end(self, container: Container, code: int) -> None:
        for output in container.outputs:
            with contextlib.suppress(KeyError):
                self._selector.unregister(output.descriptor)
        container.close()
        self._reports.append(
            Ended(
                id=container.id,
                exit_code=128 - code if code < 0 else code,
                out_of_memory=container.over_limit,
            )
        )

    def _limited(self) -> bool:
        return any(container.memory_bytes is not None for container in self._by_id.values())

    def _sample(self) -> None:
        now = time.monotonic()
        if now < self._next_sample or not self._limited():
            return
        limited = {c.pid: c for c in self._by_id.values() if c.memory_bytes is not None}
        for pid, used_bytes in processes.memory_of_trees(limited).items():
            container = limited[pid]
            if container.memory_bytes is not None and used_bytes > container.memory_bytes:
                container.over_limit = True
                processes.kill_tree(pid)
        # Counted from here: looking at a thousand processes takes its time, and must leave some.
        self._next_sample = time.monotonic() + max(MEMORY_SAMPLE_SECONDS, 4 * (time.monotonic() - now))

    def _sweep(self) -> None:
        if self._sweeping and time.monotonic() >= self._next_sweep:
            self._kill_strays()

    def _kill_strays(self) -> None:
        """Kill adopted processes whose container has ended; those of a live one may go on.

        One that has cleared its environment cannot be told: it goes when no container is left.
        """
        self._sweeping = False
        for pid in processes.children():
            if pid in self._by_pid:
                continue
            owner = processes.owner_of(pid)
            if owner not in self._by_id and (owner is not None or not self._by_id):
                processes.kill_tree(pid)
                # Its children come to us when it is gone: look again.
                self._sweeping = True
        self._next_sweep = time.monotonic() + SWEEP_SECONDS

    def _send(self) -> None:
        if not self._reports:
            return
        lines = b"".join(msgspec.json.encode(report) + b"\n" for report in self._reports)
        self._reports = []
        try:
            self._connection.sendall(lines)
        except OSError:
            self._open = False

    def _kill_all(self) -> None:
        deadline = time.monotonic() + LAST_KILL_SECONDS
        for container in self._by_id.values():
            processes.signal_group(container.pid, signal.SIGKILL)
        # What is killed leaves its children to us: look again until there are none.
        while time.monotonic() < deadline and (left := processes.children()):
            for pid in left:
                processes.kill_tree(pid)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            time.sleep(0.01)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            continue
