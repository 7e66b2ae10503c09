"""The one state of a local cluster: objects by kind, resource versions, and what changed since when.

Single-threaded: everything happens on the event loop's thread, so each call is atomic and every
reader sees changes in one order. Objects are plain JSON and are never changed in place: a change
is a new object that shares with the old one what stayed. Whoever reads treats them as frozen.
"""

from __future__ import annotations

import logging
import uuid
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from airflow_batchjob.local.moment import Moment

Object = dict[str, Any]
"""An API object as it goes over the wire (JSON, camelCase)."""

Key = tuple[str, str]
"""Namespace ("" for what lives in none) and name."""

HISTORY_LENGTH = 20_000  # about 100 s at 200 changes a second; older watches are told to list again

_log = logging.getLogger(__name__)


class StoreError(Exception):
    """The store would not do it; nothing has changed."""


class AlreadyExists(StoreError):  # noqa: N818  the API's own word for it, as are the others
    """There is an object of that kind, namespace and name."""


class NotFound(StoreError):  # noqa: N818
    """There is no object of that kind, namespace and name."""


class Conflict(StoreError):  # noqa: N818
    """The stored object is of another version, or another object (uid), than the caller saw."""


class Expired(StoreError):  # noqa: N818
    """The history no longer reaches back to that version: list again."""


class Change(NamedTuple):
    """One change of one object."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    kind: str
    """The plural, e.g. "jobs"."""
    object: Object
    """As it is now; for DELETED as it was last, with the version of the deletion."""
    old: Object | None
    """As it was before; None for ADDED."""
    version: int


Changes = list[Change]
Owned = list[tuple[str, Object]]


def format_time(moment: datetime) -> str:
    """Return an aware time as the API writes it, to the second: ``2024-05-06T07:08:09Z``."""
    return _second(int(moment.timestamp() // 1))


@lru_cache(maxsize=64)  # one string for all the objects of that second, made once
def _second(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now() -> datetime:
    return datetime.now(timezone.utc)


class Store:
    """Objects by kind, namespace and name; one rising version for all of them.

    Args:
        clock: Gives the time for creationTimestamp, aware.
        history_length: Changes kept at least for `since` and `at`; at most a quarter more.
        first_version: Where versions begin.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = _now,
        history_length: int = HISTORY_LENGTH,
        first_version: int = 0,
    ) -> None:
        self.version = first_version
        self._clock = clock
        self._objects: dict[str, dict[Key, Object]] = {}
        self._keys: dict[str, list[Key]] = {}  # those of `_objects`, sorted
        self._owned: dict[str, dict[tuple[str, Key], Object]] = {}
        self._history: list[Change] = []
        self._history_length = history_length
        self._listeners: list[Callable[[Change], None]] = []
        self._undelivered: deque[Change] = deque()
        self._delivering = False

    def create(self, kind: str, obj: Object) -> Object:
        """Keep a new object; return it with uid (unless given), resourceVersion and creationTimestamp.

        Raises:
            AlreadyExists: The name is taken.
        """
        key = _key(obj)
        objects = self._objects.setdefault(kind, {})
        if key in objects:
            raise AlreadyExists(f'{kind} "{key[1]}" already exists')
        identity = {"creationTimestamp": format_time(self._clock())}
        if not obj["metadata"].get("uid"):
            identity["uid"] = str(uuid.uuid4())
        created = self._versioned(obj, identity)
        self._keep(kind, key, created)
        insort(self._keys.setdefault(kind, []), key)
        self._record("ADDED", kind, created, None)
        return created

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return the object, or None. `namespace` is "" for nodes and namespaces."""
        return self._objects.get(kind, {}).get((namespace, name))

    def list(self, kind: str, namespace: str | None = None) -> Iterable[Object]:
        """Return the objects of a kind, in no order; of one namespace, or of all with None."""
        objects = self._objects.get(kind, {})
        if namespace is None:
            return list(objects.values())
        return [obj for key, obj in objects.items() if key[0] == namespace]

    def update(self, kind: str, obj: Object, *, expected_version: int | None = None) -> Object:
        """Put `obj` in place of the stored one and return what is stored now.

        An object that equals the stored one changes nothing, not even the version. An object with a
        deletionTimestamp, without finalizers and without a grace period left
        (`deletionGracePeriodSeconds` absent or 0) is removed: so the agent ends a pod's deletion
        by setting that to 0, and whoever drops the last finalizer after it removes the pod.

        Args:
            kind: The plural, e.g. "jobs".
            obj: The whole object. Its uid, if given, must be the stored one's; uid and
                creationTimestamp stay as they are.
            expected_version: The resourceVersion the caller has read; None to not care.

        Raises:
            NotFound: There is no such object.
            Conflict: Another uid, or the stored version is not `expected_version`.
        """
        key = _key(obj)
        old = self._objects.get(kind, {}).get(key)
        if old is None:
            raise NotFound(f'{kind} "{key[1]}" not found')
        was = old["metadata"]
        if obj["metadata"].get("uid", was["uid"]) != was["uid"]:
            raise Conflict(f'{kind} "{key[1]}" is another object: its uid is {was["uid"]}')
        if expected_version is not None and str(expected_version) != was["resourceVersion"]:
            raise Conflict(f'{kind} "{key[1]}" has been modified; its version is {was["resourceVersion"]}')
        identity = {"uid": was["uid"], "creationTimestamp": was["creationTimestamp"]}
        same = {**obj, "metadata": {**obj["metadata"], **identity, "resourceVersion": was["resourceVersion"]}}
        if _may_go(same["metadata"]):
            return self._remove(kind, key, same, old)
        if same == old:
            return old
        updated = self._versioned(same, {})
        self._keep(kind, key, updated)
        self._record("MODIFIED", kind, updated, old)
        return updated

    def delete(self, kind: str, namespace: str, name: str) -> Object | None:
        """Remove at once, whatever grace or finalizers it has; return it as it was last, or None."""
        key = (namespace, name)
        old = self._objects.get(kind, {}).get(key)
        return None if old is None else self._remove(kind, key, old, old)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` with every change from now on, in order; return what ends that.

        Called inside the call that changes, after the change. A change made by a listener reaches
        all listeners after the one at hand. An exception of a listener is logged, never raised.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def since(self, version: int) -> Changes:
        """Return the changes after `version`, in order; none for a version yet to come.

        Raises:
            Expired: The history no longer reaches that far back.
        """
        # Every change has a version of its own, so the history has no gaps.
        oldest = self.version - len(self._history)
        if version < oldest:
            raise Expired(f"too old resource version: {version} ({oldest})")
        return self._history[version - oldest :]

    def at(self, kind: str, version: int) -> Moment:
        """Return the objects of a kind as they are, or were at an earlier version, in order.

        Raises:
            Expired: The history no longer reaches that far back.
        """
        undone = {_key(one.object): one.old for one in reversed(self.since(version)) if one.kind == kind}
        return Moment(self._objects.get(kind, {}), self._keys.get(kind, ()), undone)

    def pods_of(self, job_uid: str) -> Iterable[Object]:
        """Return the pods whose controller (owner reference with ``controller: true``) has this uid."""
        owned = self._owned.get(job_uid, {})
        return [
            obj
            for (kind, _), obj in owned.items()
            if kind == "pods" and any(ref.get("controller") and ref["uid"] == job_uid for ref in _owners(obj))
        ]

    def owned_by(self, uid: str) -> Owned:
        """Return (kind, object) of everything that names `uid` among its owners."""
        return [(kind, obj) for (kind, _), obj in self._owned.get(uid, {}).items()]

    def _versioned(self, obj: Object, fields: Object) -> Object:
        version = str(self.version + 1)
        return {**obj, "metadata": {**obj["metadata"], **fields, "resourceVersion": version}}

    def _keep(self, kind: str, key: Key, obj: Object) -> None:
        old = self._objects[kind].get(key)
        if old is not None and _owners(old) != _owners(obj):
            self._forget_owners(kind, key, old)
        for owner in _owners(obj):
            self._owned.setdefault(owner["uid"], {})[kind, key] = obj
        self._objects[kind][key] = obj

    def _remove(self, kind: str, key: Key, last: Object, old: Object) -> Object:
        removed = self._versioned(last, {})
        del self._objects[kind][key]
        del self._keys[kind][bisect_left(self._keys[kind], key)]
        self._forget_owners(kind, key, old)
        self._record("DELETED", kind, removed, old)
        return removed

    def _forget_owners(self, kind: str, key: Key, obj: Object) -> None:
        for owner in _owners(obj):
            owned = self._owned.get(owner["uid"], {})
            owned.pop((kind, key), None)
            if not owned:
                self._owned.pop(owner["uid"], None)

    def _record(self, type_: str, kind: str, obj: Object, old: Object | None) -> None:
        self.version += 1
        change = Change(type_, kind, obj, old, self.version)
        self._history.append(change)
        # Cut rarely and by much: cutting one by one would copy the whole list each time.
        if 4 * len(self._history) > 5 * self._history_length:
            del self._history[: -self._history_length]
        self._undelivered.append(change)
        self._deliver()

    def _deliver(self) -> None:
        if self._delivering:  # a listener made this change: the call further up delivers it
            return
        self._delivering = True
        try:
            while self._undelivered:
                change = self._undelivered.popleft()
                for listener in tuple(self._listeners):
                    try:
                        listener(change)
                    except Exception:  # noqa: BLE001  one listener's fault is not the others'
                        _log.exception("Listener %r failed on %s %s", listener, change.type, change.kind)
        finally:
            self._delivering = False


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _owners(obj: Object) -> list[dict[str, Any]]:
    return obj["metadata"].get("ownerReferences") or []


def _may_go(metadata: dict[str, Any]) -> bool:
    return (
        metadata.get("deletionTimestamp") is not None
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )
