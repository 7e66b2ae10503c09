"""What follows a deletion: dependents go with their owner, before it, or lose it; namespaces are emptied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from airflow_batchjob.local.api.deleting import FOREGROUND, NAMESPACE, ORPHAN, Deleter, Options
from airflow_batchjob.local.api.resources import RESOURCES, Resource
from airflow_batchjob.local.controller.facts import TRACKING_FINALIZER
from airflow_batchjob.local.store import Change, Object, Store

_BY_STORE_KIND = {resource.store_kind: resource for resource in reversed(RESOURCES)}
_KINDS_BY_NAME = {resource.kind: (resource.store_kind,) for resource in RESOURCES if resource.namespaced}
_BACKGROUND = Options(propagation="Background")


class GarbageCollector:
    """Follows the store's changes.

    Args:
        store: The cluster's state.
        deleter: Deletes as the API does.
    """

    def __init__(self, store: Store, deleter: Deleter) -> None:
        self._store = store
        self._deleter = deleter
        self._unsubscribe: Callable[[], None] | None = None
        self._emptying: set[str] = set()

    def start(self) -> None:
        """Follow the store. Needs a running event loop."""
        self._unsubscribe = self._store.subscribe(self._heard)

    def stop(self) -> None:
        """Do nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _heard(self, change: Change) -> None:
        metadata = change.object["metadata"]
        if change.type == "DELETED":
            # Afterwards, so that who hears of the deletion later does not see its dependents go first.
            self._soon(self._owner_gone, metadata["uid"])
            for owner in metadata.get("ownerReferences") or ():
                self._soon(self._dependent_gone, metadata.get("namespace") or "", owner)
            namespace = metadata.get("namespace")
            if namespace and namespace not in self._emptying:
                self._emptying.add(namespace)  # looked at once, however many objects go at a time
                self._soon(self._empty, namespace)
        elif metadata.get("deletionTimestamp"):
            self._soon(self._being_deleted, change.kind, metadata)

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(self._run, call, *arguments)

    def _run(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._unsubscribe is not None:
            call(*arguments)

    def _being_deleted(self, kind: str, metadata: Object) -> None:
        obj = self._current(kind, metadata)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if kind == "namespaces":
            self._empty(metadata["name"])
        if ORPHAN in finalizers:
            self._orphan_dependents(metadata["uid"])
            self._drop_finalizer(kind, metadata, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent_kind, dependent in self._store.owned_by(metadata["uid"]):
                if not dependent["metadata"].get("deletionTimestamp"):
                    self._delete(dependent_kind, dependent)
            self._end_foreground(kind, metadata)

    def _end_foreground(self, kind: str, metadata: Object) -> None:
        blocking = [
            dependent
            for _, dependent in self._store.owned_by(metadata["uid"])
            if any(
                owner["uid"] == metadata["uid"] and owner.get("blockOwnerDeletion")
                for owner in dependent["metadata"]["ownerReferences"]
            )
        ]
        if not blocking:
            self._drop_finalizer(kind, metadata, FOREGROUND)

    def _dependent_gone(self, namespace: str, owner: Object) -> None:
        for kind in _KINDS_BY_NAME.get(owner["kind"], ()):
            obj = self._current(kind, {**owner, "namespace": namespace})
            if obj is not None and FOREGROUND in (obj["metadata"].get("finalizers") or ()):
                self._end_foreground(kind, obj["metadata"])

    def _owner_gone(self, uid: str) -> None:
        for kind, dependent in self._store.owned_by(uid):
            owners = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
            if owners:
                self._write(kind, dependent, {"ownerReferences": owners})
            else:
                self._delete(kind, dependent)

    def _orphan_dependents(self, uid: str) -> None:
        for kind, dependent in self._store.owned_by(uid):
            metadata = dependent["metadata"]
            owners = [one for one in metadata["ownerReferences"] if one["uid"] != uid]
            # A pod that belongs to no Job any more is counted by none.
            held = [one for one in metadata.get("finalizers") or () if one != TRACKING_FINALIZER]
            self._write(kind, dependent, {"ownerReferences": owners, "finalizers": held})

    def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace that is being deleted, and the namespace once nothing is."""
        self._emptying.discard(namespace)
        found = self._store.get("namespaces", "", namespace)
        if found is None or not found["metadata"].get("deletionTimestamp"):
            return
        for kind, obj in self._content(namespace):
            if not obj["metadata"].get("deletionTimestamp"):
                self._delete(kind, obj)
        if not self._content(namespace):
            self._drop_finalizer("namespaces", found["metadata"], NAMESPACE)

    def _content(self, namespace: str) -> list[tuple[str, Object]]:
        kinds = [kind for kind, resource in _BY_STORE_KIND.items() if resource.namespaced]
        return [(kind, obj) for kind in kinds for obj in self._store.list(kind, namespace)]

    def _current(self, kind: str, metadata: Object) -> Object | None:
        obj = self._store.get(kind, metadata.get("namespace") or "", metadata["name"])
        return obj if obj is not None and obj["metadata"]["uid"] == metadata["uid"] else None

    def _delete(self, kind: str, obj: Object) -> None:
        resource: Resource | None = _BY_STORE_KIND.get(kind)
        if resource is not None:
            self._deleter.delete(resource, obj, _BACKGROUND)

    def _drop_finalizer(self, kind: str, metadata: Object, finalizer: str) -> None:
        obj = self._current(kind, metadata)
        if obj is not None and finalizer in (obj["metadata"].get("finalizers") or ()):
            left = [one for one in obj["metadata"]["finalizers"] if one != finalizer]
            self._write(kind, obj, {"finalizers": left})

    def _write(self, kind: str, obj: Object, fields: Object) -> None:
        """Write metadata fields of an object; an empty one is left out."""
        metadata = {name: value for name, value in {**obj["metadata"], **fields}.items() if value != []}
        self._store.update(kind, {**obj, "metadata": metadata})
