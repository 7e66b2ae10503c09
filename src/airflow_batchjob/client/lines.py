"""Whole lines from a stream that arrives in pieces."""

from __future__ import annotations

from collections.abc import Iterator


class LineSplitter:
    """Collects pieces and gives back the lines that are complete, without their line feed.

    Args:
        longest_bytes: A longer line is given in parts of at least this size, so that a stream
            without line feeds does not fill the memory; None: lines are never parted.
    """

    def __init__(self, longest_bytes: int | None = None) -> None:
        self._longest_bytes = longest_bytes
        self._parts: list[bytes] = []
        self._held_bytes = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Take the next piece; yield the lines that end in it."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._parts.append(line)
            yield self._take()
        if rest:
            self._parts.append(rest)
            self._held_bytes += len(rest)
        if self._longest_bytes is not None and self._held_bytes >= self._longest_bytes:
            yield self._take()

    def rest(self) -> bytes:
        """Return what came after the last line feed."""
        return self._take()

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._held_bytes = [], 0
        return line
