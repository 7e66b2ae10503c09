"""Deletion: preconditions, propagation by finalizers, grace for pods. `local.gc` does what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_batchjob.local.api.bodies import parse
from airflow_batchjob.local.api.request import Request, Response
from airflow_batchjob.local.api.resources import NAMESPACES, PODS, Resource
from airflow_batchjob.local.api.schema import WrongType, decode
from airflow_batchjob.local.api.status import (
    Refused,
    bad_request,
    conflict,
    failure,
    invalid,
    invalid_object,
    not_found,
    not_supported,
    success,
)
from airflow_batchjob.local.api.writing import shown
from airflow_batchjob.local.pod_deletion import begin_deletion
from airflow_batchjob.local.store import Object, Store, format_time

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
NAMESPACE = "kubernetes"
"""Finalizer of a namespace that is being deleted and not empty yet."""
_KEPT_NAMESPACES = ("default", "kube-system")
_POLICIES = ("Foreground", "Background", "Orphan")
_ORPHANED = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to delete."""

    propagation: str | None = None
    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def read_options(request: Request) -> Options:
    """Read DeleteOptions from body or query; the body wins.

    Raises:
        Refused: 400 or 422.
    """
    try:
        sent = decode("DeleteOptions", parse(request, "DeleteOptions") if request.body.strip() else {}).object
        asked = {**_from_query(request.query), **sent}
    except (WrongType, ValueError) as error:
        raise bad_request(f"DeleteOptions cannot be read: {error}") from None
    propagation = asked.get("propagationPolicy")
    if propagation is not None and propagation not in _POLICIES:
        problem = not_supported("propagationPolicy", propagation, (*_POLICIES, "nil"))
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", [problem])
    if propagation is not None and "orphanDependents" in asked:
        words = "orphanDependents and deletionPropagation cannot be both set"
        problem = invalid("propagationPolicy", propagation, words)
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", [problem])
    if propagation is None and "orphanDependents" in asked:
        propagation = "Orphan" if asked["orphanDependents"] else "Background"
    preconditions = asked.get("preconditions") or {}
    dry_run = asked.get("dryRun") or []
    if any(one != "All" for one in dry_run):
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", [not_supported("dryRun", dry_run, ("All",))])
    return Options(
        propagation=propagation,
        grace_seconds=asked.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        dry_run=bool(dry_run),
    )


def _from_query(query: Mapping[str, str]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if "propagationPolicy" in query:
        asked["propagationPolicy"] = query["propagationPolicy"]
    if "gracePeriodSeconds" in query:
        asked["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if "orphanDependents" in query:
        asked["orphanDependents"] = query["orphanDependents"] == "true"
    if "dryRun" in query:
        asked["dryRun"] = [query["dryRun"]]
    return asked


class Deleter:
    """Deletes objects, at once or by marking them.

    Args:
        store: The cluster's state.
        clock: Gives the time, aware.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def delete_one(self, resource: Resource, namespace: str, name: str, options: Options) -> Response:
        """Delete one object; answer with a Status where it is gone, with the object where it is not yet.

        A refusal (403, 404, or 409 where a precondition fails) is answered, not raised.
        """
        # Kubernetes warns of it before it looks at all, so a refusal carries the warning too.
        warnings = (_ORPHANED,) if resource.plural == "jobs" and options.propagation is None else ()
        try:
            body = self._delete_one(resource, namespace, name, options)
        except Refused as refused:
            return Response(code=refused.status["code"], body=refused.status, warnings=warnings)
        return Response(body=body, warnings=warnings)

    def _delete_one(self, resource: Resource, namespace: str, name: str, options: Options) -> Object:
        obj = self._store.get(resource.store_kind, namespace, name)
        if obj is None:
            raise not_found(resource.plural, resource.group, name)
        _check_preconditions(resource, obj, options)
        if resource is NAMESPACES and name in _KEPT_NAMESPACES:
            words = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise Refused(failure(403, "Forbidden", words))
        if options.dry_run:
            return shown(resource, obj)
        left = self.delete(resource, obj, options)
        if left is not None:
            return shown(resource, left)
        about = {
            "name": name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": obj["metadata"]["uid"],
        }
        return success({key: value for key, value in about.items() if value})

    def delete(self, resource: Resource, obj: Object, options: Options) -> Object | None:
        """Delete an object; return what is left of it, or None."""
        kind, metadata = resource.store_kind, obj["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        finalizers = _finalizers(metadata, options.propagation or resource.deletes_by_default)
        changed = {key: value for key, value in metadata.items() if key != "finalizers"}
        if resource is NAMESPACES:
            finalizers = [*(one for one in finalizers if one != NAMESPACE), NAMESPACE]
            obj = {**obj, "status": {**(obj.get("status") or {}), "phase": "Terminating"}}
        if finalizers:
            changed["finalizers"] = finalizers
        if resource is PODS:
            pod = {**obj, "metadata": changed}
            begin_deletion(self._store, pod, self._clock(), grace_seconds=options.grace_seconds)
        elif not finalizers and not metadata.get("deletionTimestamp"):
            self._store.delete(kind, namespace, name)
        else:
            changed.setdefault("deletionTimestamp", format_time(self._clock()))
            changed.setdefault("deletionGracePeriodSeconds", 0)
            if "generation" in changed and not metadata.get("deletionTimestamp"):
                changed["generation"] += 1
            self._store.update(kind, {**obj, "metadata": changed})
        left = self._store.get(kind, namespace, name)
        return left if left is not None and left["metadata"]["uid"] == metadata["uid"] else None


def _finalizers(metadata: Object, propagation: str) -> list[str]:
    """Return the finalizers with the one that carries out the propagation, and without the others."""
    wanted = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(propagation, [])
    others = [one for one in metadata.get("finalizers") or () if one not in (FOREGROUND, ORPHAN)]
    return [*others, *wanted]


def _check_preconditions(resource: Resource, obj: Object, options: Options) -> None:
    metadata = obj["metadata"]
    why = ""
    if options.uid not in (None, metadata["uid"]):
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
    elif options.version not in (None, metadata["resourceVersion"]):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match "
            f"the ResourceVersion in record ({metadata['resourceVersion']}). "
            "The object might have been modified"
        )
    if why:
        raise conflict(resource.kind, resource.group, metadata["name"], why)
