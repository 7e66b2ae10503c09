"""Reads a log file as the options ask for, and follows it.

A log file has a record per line of output: time (RFC 3339), stream, ``F`` for a whole line or ``P`` for
a part of one, text.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.1
_BYTES_PER_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a log is wanted."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: str = "All"


def log_moment(text: str) -> datetime:
    """Read a time in RFC 3339 with any number of digits after the second; always aware.

    Raises:
        ValueError: It is none.
    """
    # Python below 3.11 reads three or six digits, no Z; the API's clients may send nine.
    head, dot, rest = text.replace("Z", "+00:00").partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    moment = datetime.fromisoformat(f"{head}.{digits[:6]:0<6}{rest[len(digits) :]}" if dot else head)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment


async def stream_log(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield a log from its file; with `follow`, until `ended` says that no more will come."""
    lines = _Lines(options)
    with path.open("rb") as file:
        if options.tail_lines is not None:
            _seek_tail(file, options.tail_lines)
        rest = b""
        while not lines.full:
            # Asked before reading: what was written before the end is then read for certain.
            last = not options.follow or ended()
            while not lines.full and (block := file.read(_BYTES_PER_CHUNK)):
                *whole, rest = (rest + block).split(b"\n")
                for chunk in lines.chunks(whole):
                    yield chunk
                await asyncio.sleep(0)  # a long log is not to hold up the cluster
            if last:
                return
            await asyncio.sleep(POLL_SECONDS)


class _Lines:
    """Turns records into what the options ask for, and counts bytes."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._within = False  # a line of which a part has been shown

    @property
    def full(self) -> bool:
        return self._left is not None and self._left <= 0

    def chunks(self, records: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what the records show, in pieces of bounded size."""
        parts: list[bytes] = []
        size = 0
        for record in records:
            if self.full:
                break
            time, stream, flag, text = record.split(b" ", 3)
            if not self._wanted(time, stream):
                continue
            parts.append(self._shown(time, flag, text))
            size += len(parts[-1])
            if size >= _BYTES_PER_CHUNK:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)

    def _wanted(self, time: bytes, stream: bytes) -> bool:
        options = self._options
        if options.stream != "All" and stream != options.stream.lower().encode():
            return False
        return options.since is None or log_moment(time.decode()) >= options.since

    def _shown(self, time: bytes, flag: bytes, text: bytes) -> bytes:
        if self._options.timestamps and not self._within:
            text = time + b" " + text
        self._within = flag == b"P"
        if not self._within:
            text += b"\n"
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text


def _seek_tail(file: BinaryIO, count: int) -> None:
    """Go to where the last `count` lines begin, reading backwards."""
    end = file.seek(0, os.SEEK_END)
    if not count:
        return
    breaks_wanted = count + 1  # the one before the first of them; the last line has its own
    position = end
    while position > 0:
        size = min(_BYTES_PER_CHUNK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        found = block.count(b"\n")
        if found < breaks_wanted:
            breaks_wanted -= found
            continue
        at = len(block)
        for _ in range(breaks_wanted):
            at = block.rindex(b"\n", 0, at)
        file.seek(position + at + 1)
        return
    file.seek(0)
