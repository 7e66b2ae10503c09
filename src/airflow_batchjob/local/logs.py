"""Log files of containers: where they lie, and reading them as the API's log endpoint serves them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 64 * 1024
# How soon a follower sees a new line. Looking costs microseconds, and there are few followers.
FOLLOW_SECONDS = 0.1

MESSAGE_BYTES = 2048  # of the log that stand in for a termination message; Kubernetes' own limits
MESSAGE_LINES = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What part of a log, and how. All fields as in the API, already checked."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    """Leave out lines written before it."""
    tail_lines: int | None = None
    limit_bytes: int | None = None


class LogStore:
    """The logs of all containers.

    Args:
        folder: The cluster's own folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pod_folder(self, pod_uid: str) -> Path:
        """Return where a pod's logs and volumes lie."""
        return self._folder / "pods" / pod_uid

    def path(self, pod_uid: str, container: str, attempt: int) -> Path:
        """Return the log file of one attempt of a container; the first attempt is 0."""
        return self.pod_folder(pod_uid) / f"{container}.{attempt}.log"

    def exists(self, pod_uid: str, container: str, attempt: int) -> bool:
        """Return whether that attempt has been started."""
        return self.path(pod_uid, container, attempt).exists()

    async def read(
        self, pod_uid: str, container: str, attempt: int, query: LogQuery, is_over: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield the log in pieces, as text/plain.

        Args:
            pod_uid: The pod's uid.
            container: Its name.
            attempt: Which start of it: its restartCount; one less for ``previous``.
            query: What part.
            is_over: Whether the container has ended; asked while following, before each look.
        """
        try:
            file = self.path(pod_uid, container, attempt).open("rb")
        except FileNotFoundError:
            return
        left = query.limit_bytes
        with file:
            if query.tail_lines is not None:
                file.seek(_tail_offset(file, query.tail_lines))
            async for piece in _pieces(file, query, is_over):
                if left is None:
                    yield piece
                    continue
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

    def last_lines(self, pod_uid: str, container: str, attempt: int) -> str:
        """Return the end of a log as a termination message."""
        try:
            file = self.path(pod_uid, container, attempt).open("rb")
        except FileNotFoundError:
            return ""
        with file:
            file.seek(_tail_offset(file, MESSAGE_LINES))
            text = _plain(file.read(), timestamps=False, since=None)
        return text[-MESSAGE_BYTES:].decode("utf-8", "replace")


async def _pieces(file: BinaryIO, query: LogQuery, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    rest = b""
    while True:
        over = is_over()  # before reading: what is written until the end must still be read
        while chunk := file.read(CHUNK_BYTES):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if piece := _plain(whole + newline, timestamps=query.timestamps, since=query.since):
                yield piece
            await asyncio.sleep(0)  # a long log must not hold up the server
        if over or not query.follow:
            return
        await asyncio.sleep(FOLLOW_SECONDS)


def _plain(records: bytes, *, timestamps: bool, since: datetime | None) -> bytes:
    """Turn whole records (time, stream, whole or partial, text) into what a reader gets."""
    earliest = since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() if since else b""
    parts = []
    continues = False
    for record in records.split(b"\n"):
        if not record:
            continue
        time, _, end, text = record.split(b" ", 3)
        if time >= earliest:
            if timestamps and not continues:
                parts += [time, b" "]
            parts.append(text)
            if end == b"F":
                parts.append(b"\n")
        continues = end == b"P"
    return b"".join(parts)


def _tail_offset(file: BinaryIO, lines: int) -> int:
    """Return where the last `lines` lines begin, reading backwards from the end."""
    end = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return end
    position, seen = end, 0
    while position > 0:
        start = max(0, position - CHUNK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            if start + at + 1 < end:  # the newline at the very end ends the last line
                seen += 1
                if seen == lines:
                    return start + at + 1
        position = start
    return 0
