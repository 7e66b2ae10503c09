"""What server and launcher say to each other: one JSON object a line, over a socket."""

from __future__ import annotations

import msgspec


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that appears elsewhere for one container alone."""

    source: str
    target: str
    read_only: bool = False


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """Start a command in a process group of its own."""

    id: str
    argv: list[str]
    env: dict[str, str]
    folder: str
    """Working directory."""
    log: str
    """File that gets both its streams, each line with its time."""
    mounts: list[Mount] = []
    memory_bytes: int | None = None
    """Above it, the command and all that it started are killed."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """Send a signal to a command's process group; SIGKILL to all it has started."""

    id: str
    number: int


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The command runs."""

    id: str
    pid: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The command could not be started."""

    id: str
    message: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The command has ended, and so has all that it started; its log is complete."""

    id: str
    exit_code: int
    """128 + the signal's number where a signal ended it, as a shell reports it."""
    out_of_memory: bool = False


Request = Start | Signal
Report = Started | Refused | Ended
