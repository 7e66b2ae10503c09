"""Create, replace and patch: a body in, a stored object out, after the rules of its kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime

from airflow_batchjob.local.api import kinds
from airflow_batchjob.local.api.bodies import Body, check_dry_run, read_object, read_tree
from airflow_batchjob.local.api.local_rules import local_problems
from airflow_batchjob.local.api.names import generated_name, metadata_problems
from airflow_batchjob.local.api.patching import check_patch_type, patched
from airflow_batchjob.local.api.request import Request, Response
from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.status import (
    Problems,
    Refused,
    already_exists,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    invalid_object,
    not_found,
    required,
)
from airflow_batchjob.local.store import AlreadyExists, Conflict, NotFound, Object, Store, format_time

_TRIES_FOR_A_NAME = 8
_STALE = "the object has been modified; please apply your changes to the latest version and try again"
# Set by the cluster alone; what a client sends there is dropped.
_OURS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)


class Writer:
    """Writes objects into the store.

    Args:
        store: The cluster's state.
        clock: Gives the time, aware.
        private_mounts: Whether this system lets a process have mounts of its own; what needs them
            is refused where it does not.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime], *, private_mounts: bool) -> None:
        self._store = store
        self._clock = clock
        self._private_mounts = private_mounts

    def create(self, request: Request, resource: Resource, namespace: str) -> Response:
        """Create the body's object.

        Raises:
            Refused: 400, 403, 404 (no such namespace), 409 or 422.
        """
        check_dry_run(request)
        self._check_namespace(namespace)
        rules = kinds.rules_of(resource.store_kind)
        body = read_object(request, resource)
        metadata = _new_metadata(body.object["metadata"], resource, namespace)
        for left in range(_TRIES_FOR_A_NAME, 0, -1):
            named = {
                **body.object,
                "metadata": self._named(metadata, resource, has_generation=rules.has_generation),
            }
            obj = rules.prepared(rules.with_defaults(named))
            if problems := [*rules.create_problems(obj), *self._local_problems(rules, obj)]:
                raise _invalid(resource, obj, problems)
            warnings = (*body.warnings, *rules.warnings(obj))
            try:
                return Response(code=201, body=self._keep(request, resource, obj), warnings=warnings)
            except AlreadyExists:
                if left == 1 or metadata.get("name"):
                    raise already_exists(resource.plural, resource.group, obj["metadata"]["name"]) from None
        raise AssertionError  # the last try either returned or raised

    def _local_problems(self, rules: kinds.Rules, obj: Object) -> Problems:
        spec = obj
        for name in rules.pod_spec:
            spec = spec[name]
        path = ".".join(rules.pod_spec)
        return local_problems(spec, path, private_mounts=self._private_mounts) if path else []

    def _keep(self, request: Request, resource: Resource, obj: Object) -> Object:
        if not request.dry_run:
            return self._store.create(resource.store_kind, obj)
        metadata = obj["metadata"]
        if (
            self._store.get(resource.store_kind, metadata.get("namespace") or "", metadata["name"])
            is not None
        ):
            raise AlreadyExists(metadata["name"])
        return {**obj, "metadata": {**metadata, "creationTimestamp": format_time(self._clock())}}

    def _check_namespace(self, namespace: str) -> None:
        if not namespace:
            return
        found = self._store.get("namespaces", "", namespace)
        if found is None:
            raise not_found("namespaces", "", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            causes = [{"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"}]
            raise Refused(failure(403, "Forbidden", why, {"causes": causes}))

    def _named(self, metadata: Object, resource: Resource, *, has_generation: bool) -> Object:
        named = {**metadata, "uid": str(uuid.uuid4())}
        if not named.get("name") and named.get("generateName"):
            named["name"] = generated_name(named["generateName"])
        if not named.get("name"):
            problem = required("metadata.name", "name or generateName is required")
            raise invalid_object(resource.kind, resource.group, "", [problem])
        return {**named, "generation": 1} if has_generation else named

    def replace(self, request: Request, resource: Resource, namespace: str, name: str, sub: str) -> Response:
        """Put the body's object in place of the stored one, or its status alone (`sub`).

        Raises:
            Refused: 400, 404, 409 or 422.
        """
        check_dry_run(request)
        old = self._get(resource, namespace, name)
        return self._change(request, resource, old, read_object(request, resource), sub)

    def patch(self, request: Request, resource: Resource, namespace: str, name: str, sub: str) -> Response:
        """Patch the stored object, or its status alone (`sub`).

        Raises:
            Refused: 400, 404, 409, 415 or 422.
        """
        check_dry_run(request)
        check_patch_type(request)
        old = self._get(resource, namespace, name)
        tree = patched(request, resource, shown(resource, old))
        body = read_tree(tree, request, resource.kind, resource.api_version, resource.schema_type)
        return self._change(request, resource, old, body, sub)

    def _get(self, resource: Resource, namespace: str, name: str) -> Object:
        found = self._store.get(resource.store_kind, namespace, name)
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return found

    def _change(self, request: Request, resource: Resource, old: Object, body: Body, sub: str) -> Response:
        rules = kinds.rules_of(resource.store_kind)
        sent = body.object
        _check_identity(resource, sent, old)
        if request.method == "PUT":
            _check_uid(resource, sent["metadata"], old["metadata"])
        version = sent["metadata"].get("resourceVersion")
        problems = _metadata_change_problems(sent["metadata"], old["metadata"])
        new = {**sent, "metadata": _kept_metadata(sent["metadata"], old["metadata"])}
        warnings = body.warnings
        if sub == "status":
            new = {**old, "metadata": new["metadata"], "status": sent.get("status") or {}}
            problems += rules.status_problems(new, old)
        else:
            new = rules.with_defaults(new)
            if rules.has_status:
                new = {**new, "status": old.get("status") or {}}
            problems += metadata_problems(new["metadata"], dns_label=resource.plural == "namespaces")
            problems += rules.change_problems(new, old)
            if rules.has_generation and new["spec"] != old["spec"]:
                generation = (old["metadata"].get("generation") or 0) + 1
                new = {**new, "metadata": {**new["metadata"], "generation": generation}}
                warnings = (*warnings, *rules.warnings(new))
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(resource.plural, resource.group, old["metadata"]["name"], _STALE)
        if problems:
            raise _invalid(resource, new, problems)
        return Response(body=self._put(request, resource, new), warnings=warnings)

    def _put(self, request: Request, resource: Resource, new: Object) -> Object:
        if request.dry_run:
            return new
        try:
            return self._store.update(resource.store_kind, new)
        except NotFound:
            raise not_found(resource.plural, resource.group, new["metadata"]["name"]) from None
        except Conflict as error:
            raise conflict(resource.plural, resource.group, new["metadata"]["name"], str(error)) from None


def shown(resource: Resource, obj: Object) -> Object:
    """Return a stored object as clients see it: with its kind, which parts of the cluster may leave out."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _new_metadata(sent: Object, resource: Resource, namespace: str) -> Object:
    if resource.namespaced and sent.get("namespace") not in (None, "", namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if sent.get("resourceVersion"):  # a slip of the client, and yet a 500 in Kubernetes
        raise Refused(failure(500, "", "resourceVersion should not be set on objects to be created"))
    metadata = {name: value for name, value in sent.items() if name not in _OURS}
    metadata.pop("resourceVersion", None)
    metadata.pop("generation", None)
    return {**metadata, "namespace": namespace} if resource.namespaced else metadata


def _check_identity(resource: Resource, sent: Object, old: Object) -> None:
    was, now = old["metadata"], sent["metadata"]
    name, namespace = now.get("name"), now.get("namespace")
    if not name:
        raise bad_request("metadata.name: Required value: name is required")
    if name != was["name"]:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({was['name']})"
        )
    if resource.namespaced and namespace and namespace != was.get("namespace"):
        raise bad_request(
            f"the namespace of the object ({namespace}) does not match "
            f"the namespace on the URL ({was.get('namespace')})"
        )


def _check_uid(resource: Resource, sent: Object, was: Object) -> None:
    uid = sent.get("uid") or was["uid"]
    if uid != was["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was['uid']}"
        raise conflict(resource.plural, resource.group, was["name"], why)


def _metadata_change_problems(sent: Object, was: Object) -> Problems:
    problems: Problems = []
    uid = sent.get("uid")
    if uid and uid != was["uid"]:
        problems.append(invalid("metadata.uid", uid, "field is immutable"))
    if was.get("deletionTimestamp"):
        added = [one for one in sent.get("finalizers") or () if one not in (was.get("finalizers") or ())]
        if added:
            words = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            )
            problems.append(forbidden("metadata.finalizers", words))
    return problems


def _kept_metadata(sent: Object, was: Object) -> Object:
    kept = (*_OURS, "resourceVersion", "generation", "generateName", "namespace", "name")
    ours = {name: was[name] for name in kept if name in was}
    return {**{name: value for name, value in sent.items() if name not in kept}, **ours}


def _invalid(resource: Resource, obj: Object, problems: Problems) -> Refused:
    return invalid_object(resource.kind, resource.group, obj["metadata"].get("name", ""), problems)
