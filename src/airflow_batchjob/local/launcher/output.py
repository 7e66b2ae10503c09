"""A container's output, line by line into its log file: time, stream, whole or partial, text.

The format is that of Kubernetes' container runtimes, so that the times are there when asked for.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone

CHUNK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 16 * 1024  # longer ones are cut into partial lines, as container runtimes do


class Output:
    """One stream of one container.

    Args:
        descriptor: The pipe's end to read from, non-blocking. Owned.
        log: The log file, open for appending. Shared by both streams.
        stream: "stdout" or "stderr".
    """

    __slots__ = ("_log", "_rest", "_stream", "descriptor")

    def __init__(self, descriptor: int, log: int, stream: str) -> None:
        self.descriptor = descriptor
        self._log = log
        self._stream = stream.encode()
        self._rest = b""

    def pump(self) -> bool:
        """Move what there is to the log, at most one chunk; return False at its end."""
        try:
            chunk = os.read(self.descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return True
        if chunk:
            self._write(chunk)
        return bool(chunk)

    def drain(self, most_bytes: int = 16 * 1024 * 1024) -> None:
        """Move all that is in the pipe, then close. Nobody writes any more, or nobody who matters."""
        for _ in range(most_bytes // CHUNK_BYTES):
            try:
                chunk = os.read(self.descriptor, CHUNK_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._write(chunk)
        self.close()

    def close(self) -> None:
        """Write a last line without an end, and close the pipe."""
        if self._rest:
            self._put([self._record(self._rest, b"P")])  # read back as it is: without a newline
            self._rest = b""
        os.close(self.descriptor)

    def _write(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        records: list[bytes] = []
        for line in lines:
            records += self._records(line, b"F")
        while len(self._rest) >= LONGEST_LINE_BYTES:
            records.append(self._record(self._rest[:LONGEST_LINE_BYTES], b"P"))
            self._rest = self._rest[LONGEST_LINE_BYTES:]
        self._put(records)

    def _records(self, line: bytes, end: bytes) -> list[bytes]:
        records = []
        while len(line) > LONGEST_LINE_BYTES:
            records.append(self._record(line[:LONGEST_LINE_BYTES], b"P"))
            line = line[LONGEST_LINE_BYTES:]
        return [*records, self._record(line.removesuffix(b"\r"), end)]  # containerd ends lines at either, too

    def _record(self, text: bytes, end: bytes) -> bytes:
        now = datetime.now(timezone.utc)
        return b"%s %s %s %s\n" % (now.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode(), self._stream, end, text)

    def _put(self, records: list[bytes]) -> None:
        if records:
            os.write(self._log, b"".join(records))
