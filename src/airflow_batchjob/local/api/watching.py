"""Watches: the store's history, filtered, as lines of JSON.

A watch holds no queue: it remembers the version it has told up to and reads on from the store's
history, which is bounded. A reader too slow for that is told that its version has expired.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import msgspec

from airflow_batchjob.local.api.listing import (
    check_list_options,
    number_option,
    selection,
    too_large_version,
)
from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.selectors import Test
from airflow_batchjob.local.api.status import failure
from airflow_batchjob.local.store import Change, Expired, Object, Store

Show = Callable[[Object], Object]
"""Turns a stored object into what this watch shows."""

BOOKMARK_SECONDS = 60.0
_LEAST_SECONDS = 1800  # a watch without a limit of its own ends after 30 to 60 minutes
_BYTES_PER_CHUNK = 256 * 1024
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Watches:
    """All watches of one store.

    Args:
        store: What is watched.
        bookmark_seconds: How often a quiet watch that allows bookmarks is told the version.
    """

    def __init__(self, store: Store, *, bookmark_seconds: float = BOOKMARK_SECONDS) -> None:
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._wakers: dict[str, set[asyncio.Event]] = {}
        self._closed = False
        self._unsubscribe = store.subscribe(self._heard)

    def close(self) -> None:
        """End every watch, as at the end of its time."""
        self._closed = True
        self._unsubscribe()
        for wakers in self._wakers.values():
            for waker in wakers:
                waker.set()

    def _heard(self, change: Change) -> None:
        for waker in self._wakers.get(change.kind, ()):
            waker.set()

    def stream(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str], show: Show
    ) -> AsyncIterator[bytes]:
        """Return the lines of a watch. What can be refused is refused here, before the first line.

        Raises:
            Refused: 400, 422 or 504.
        """
        check_list_options(query, watch=True)
        watch = _Watch(self._store, resource, selection(resource, namespace, query), show)
        asked = query.get("resourceVersion", "")
        version = number_option(query, "resourceVersion")
        initial = query.get("sendInitialEvents", "") in ("1", "true")
        if initial and version > self._store.version:
            raise too_large_version(version, self._store.version)
        if initial or (asked in ("", "0") and "sendInitialEvents" not in query):
            watch.begin_with_list(bookmark=initial)
        else:
            watch.begin_at(version if asked not in ("", "0") else self._store.version)
        seconds = number_option(query, "timeoutSeconds") or _LEAST_SECONDS * (1 + random.random())  # noqa: S311
        bookmarks = query.get("allowWatchBookmarks", "") in ("1", "true")
        return self._run(watch, resource.store_kind, seconds, bookmarks=bookmarks)

    async def _run(
        self, watch: _Watch, kind: str, seconds: float, *, bookmarks: bool
    ) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        next_bookmark = clock() + self._bookmark_seconds
        waker = asyncio.Event()
        self._wakers.setdefault(kind, set()).add(waker)
        try:
            while True:
                waker.clear()
                for chunk in watch.news():
                    yield chunk
                if watch.over or self._closed or clock() >= end:
                    break
                if bookmarks and clock() >= next_bookmark:
                    yield watch.bookmark()
                    next_bookmark = clock() + self._bookmark_seconds
                await _wait(waker, max(0.0, min(end, next_bookmark if bookmarks else end) - clock()))
            if bookmarks and not watch.over:
                yield watch.bookmark()
        finally:
            self._wakers[kind].discard(waker)


async def _wait(waker: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(waker.wait(), seconds)
    except (asyncio.TimeoutError, TimeoutError):
        return


class _Watch:
    """One watch: where it stands, and the lines that come next."""

    def __init__(self, store: Store, resource: Resource, matches: Test, show: Show) -> None:
        self._store = store
        self._resource = resource
        self._matches = matches
        self._show = show
        self._position = 0
        self._first: list[bytes] = []
        self.over = False

    def begin_with_list(self, *, bookmark: bool) -> None:
        """Tell what is there first; with `bookmark`, also that this was all of it."""
        found = filter(self._matches, self._store.list(self._resource.store_kind))
        ordered = sorted(
            found, key=lambda obj: (obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
        )
        self._first = [self._line("ADDED", obj) for obj in ordered]
        self._position = self._store.version
        if bookmark:
            self._first.append(self._bookmark(_INITIAL_EVENTS_END))

    def begin_at(self, version: int) -> None:
        self._position = version

    def news(self) -> Iterator[bytes]:
        """Yield what has happened since, in pieces of bounded size."""
        lines, self._first = self._first, []
        try:
            changes = self._store.since(self._position)
        except Expired as error:
            self.over = True
            yield b"".join(lines) + _event("ERROR", failure(410, "Expired", str(error)))
            return
        size = sum(map(len, lines))
        for change in changes:
            if change.kind == self._resource.store_kind:
                line = self._line_of(change)
                lines.append(line)
                size += len(line)
            if size >= _BYTES_PER_CHUNK:
                self._position = change.version
                yield b"".join(lines)
                lines, size = [], 0
        self._position = max(self._position, changes[-1].version if changes else 0)
        if lines and size:
            yield b"".join(lines)

    def _line_of(self, change: Change) -> bytes:
        """Return the line for a change, seen through the selector; empty where it is out of sight."""
        seen_before = change.old is not None and self._matches(change.old)
        seen_now = change.type != "DELETED" and self._matches(change.object)
        if seen_now:
            return self._line("MODIFIED" if seen_before else "ADDED", change.object)
        if not seen_before or change.old is None:
            return b""
        last = change.object if change.type == "DELETED" else change.old
        metadata = {**last["metadata"], "resourceVersion": str(change.version)}
        return self._line("DELETED", {**last, "metadata": metadata})

    def _line(self, type_: str, obj: Object) -> bytes:
        return _event(type_, self._show(obj))

    def bookmark(self) -> bytes:
        return self._bookmark({})

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: Object = {"resourceVersion": str(self._position)}
        if annotations:
            metadata["annotations"] = annotations
        kind, version = self._resource.kind, self._resource.api_version
        return _event("BOOKMARK", {"kind": kind, "apiVersion": version, "metadata": metadata})


def _event(type_: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"
