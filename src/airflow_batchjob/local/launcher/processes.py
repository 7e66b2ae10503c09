"""Starting one command and finding all that it started: the system calls, for Linux and macOS."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

MARK = "BATCHJOB_CONTAINER_ID"
"""Environment variable that tells whose a process is that has left its group."""

_PR_SET_CHILD_SUBREAPER = 36
_IS_LINUX = sys.platform.startswith("linux")

# Python ignores SIGPIPE and we ignore the rest; a command must find them as it would anywhere.
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def adopt_orphans() -> None:
    """Become the parent of what a command leaves behind, so that it can be found (Linux)."""
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def find_executable(name: str, env: Mapping[str, str], folder: str) -> str:
    """Return the path of a command as the container's own PATH finds it.

    Raises:
        FileNotFoundError: There is none. The message is that of a container runtime.
        PermissionError: It is there but must not be executed.
    """
    if "/" in name:
        path = os.path.join(folder, name)  # noqa: PTH118  absolute stays absolute
        if not os.path.exists(path):  # noqa: PTH110
            raise FileNotFoundError(f'exec: "{name}": stat {name}: no such file or directory')
        if os.path.isdir(path) or not os.access(path, os.X_OK):  # noqa: PTH112
            raise PermissionError(f'exec: "{name}": permission denied')
        return path
    for place in env.get("PATH", "").split(":"):
        path = os.path.join(folder, place, name)  # noqa: PTH118
        if place and os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    raise FileNotFoundError(f'exec: "{name}": executable file not found in $PATH')


def spawn(path: str, argv: list[str], env: Mapping[str, str], out: int, err: int) -> int:
    """Start a command in a process group of its own, in the current folder; return its pid.

    Not a session of its own: Linux shares processors out by session, and the server would get as
    little as each of a hundred commands (https://man7.org/linux/man-pages/man7/sched.7.html, autogroup).
    """
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    )
    return os.posix_spawn(path, argv, env, file_actions=actions, setpgroup=0, setsigdef=RESET_SIGNALS)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a command's process group; nothing where it is gone."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM where only a zombie is left
        return


def children() -> list[int]:
    """Return this process's own children, those adopted included."""
    if _IS_LINUX:
        try:
            text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
            return [int(pid) for pid in text.split()]
        except OSError:  # a kernel without that file
            pass
    return [child.pid for child in psutil.Process().children()]


def owner_of(pid: int) -> str | None:
    """Return the id of the container that a process comes from, if it still says so."""
    try:
        return psutil.Process(pid).environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def kill_tree(pid: int) -> None:
    """Kill a process, its group and whatever descends from it."""
    try:
        family = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        family = []
    signal_group(pid, signal.SIGKILL)
    for pid_ in (pid, *(child.pid for child in family)):
        try:
            os.kill(pid_, signal.SIGKILL)
        except ProcessLookupError:
            continue


def memory_of_trees(roots: Iterable[int]) -> dict[int, int]:
    """Return for each process the resident memory, in bytes, of it and all its descendants."""
    of: dict[int, int] = {}
    parent: dict[int, int] = {}
    for process in psutil.process_iter(["ppid", "memory_info"]):
        info = process.info["memory_info"]
        if info is not None:
            of[process.pid], parent[process.pid] = info.rss, process.info["ppid"]
    wanted = set(roots)
    sums = dict.fromkeys(wanted, 0)
    for pid, rss in of.items():
        ancestor: int | None = pid
        while ancestor is not None and ancestor not in wanted:
            ancestor = parent.get(ancestor)
        if ancestor is not None:
            sums[ancestor] += rss
    return sums
