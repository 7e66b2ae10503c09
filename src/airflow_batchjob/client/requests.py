"""Requests to the Job API as values: method, path, query and body, and nothing sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
PAGE_SIZE = 500
WATCH_SILENCE_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request.

    `read_seconds` is the longest silence of the server, `total_seconds` the longest time for all of
    it (None: as long as it speaks).
    """

    what: str  # for errors, e.g. "get Job ml/embed"
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    read_seconds: float = 30.0
    total_seconds: float | None = 60.0


def _path(namespace: str, kind: str, *rest: str) -> str:
    group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
    names = "/".join(quote(part, safe="") for part in (kind, *rest))
    return f"{group}/namespaces/{quote(namespace, safe='')}/{names}"


def create_job(namespace: str, manifest: Mapping[str, Any]) -> Call:
    name = (manifest.get("metadata") or {}).get("name", "")
    return Call(
        what=f"create Job {namespace}/{name}",
        method="POST",
        path=_path(namespace, "jobs"),
        # By default a server drops fields that it does not know, and the Job is not what was asked for.
        query={"fieldValidation": "Strict"},
        body=manifest,
    )


def get_job(namespace: str, name: str) -> Call:
    return Call(what=f"get Job {namespace}/{name}", method="GET", path=_path(namespace, "jobs", name))


def get_node(name: str) -> Call:
    return Call(what=f"get Node {name}", method="GET", path=f"/api/v1/nodes/{quote(name, safe='')}")


def patch_job(
    namespace: str, name: str, operations: Sequence[Mapping[str, Any]], *, subresource: str = ""
) -> Call:
    rest = (name, subresource) if subresource else (name,)
    return Call(
        what=f"patch Job {'/'.join((namespace, *rest))}",
        method="PATCH",
        path=_path(namespace, "jobs", *rest),
        body=list(operations),
        content_type=JSON_PATCH,
    )


def delete_job(namespace: str, name: str, uid: str) -> Call:
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid},
    }
    return Call(
        what=f"delete Job {namespace}/{name}",
        method="DELETE",
        path=_path(namespace, "jobs", name),
        body=options,
    )


def list_page(namespace: str, kind: str, selector: Mapping[str, str], token: str = "") -> Call:
    """One page of a list; `kind` is jobs, pods or events, `selector` labelSelector or fieldSelector."""
    query = {**_given(selector), "limit": str(PAGE_SIZE)}
    return Call(
        what=f"list {kind} in {namespace}",
        method="GET",
        path=_path(namespace, kind),
        query={**query, "continue": token} if token else query,
    )


def watch(namespace: str, kind: str, label_selector: str, resource_version: str, seconds: int) -> Call:
    """A watch that the server ends after `seconds`; ours ends a little later, should it not.

    A quiet watch is told a bookmark about each minute. One that is silent for longer may hang on a
    connection that is dead: a new one from the same version costs a request and misses nothing.
    """
    query = {
        "watch": "true",
        "resourceVersion": resource_version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
    return Call(
        what=f"watch {kind} in {namespace}",
        method="GET",
        path=_path(namespace, kind),
        query={**_given({"labelSelector": label_selector}), **query},
        read_seconds=WATCH_SILENCE_SECONDS,
        total_seconds=seconds + 30.0,
    )


def pod_log(
    namespace: str, pod: str, container: str, *, tail_lines: int | None, limit_bytes: int | None
) -> Call:
    query = {"container": container}
    if tail_lines is not None:
        query["tailLines"] = str(tail_lines)
    if limit_bytes is not None:
        query["limitBytes"] = str(limit_bytes)
    return Call(
        what=f"read the log of {container} in Pod {namespace}/{pod}",
        method="GET",
        path=_path(namespace, "pods", pod, "log"),
        query=query,
    )


def follow_log(
    namespace: str, pod: str, container: str, *, since_time: str | None, idle_seconds: float
) -> Call:
    """A log as it grows. Silence for `idle_seconds` ends it: a rotated log may have gone quiet for good."""
    query = {"container": container, "follow": "true", "timestamps": "true"}
    return Call(
        what=f"follow the log of {container} in Pod {namespace}/{pod}",
        method="GET",
        path=_path(namespace, "pods", pod, "log"),
        query={**query, "sinceTime": since_time} if since_time else query,
        read_seconds=idle_seconds,
        total_seconds=None,
    )


def access_review(namespace: str, *, group: str, resource: str, verb: str) -> Call:
    """May this account? `namespace` "": on the whole cluster; `resource` also a subresource ("pods/log")."""
    kind, _, subresource = resource.partition("/")
    asked = {
        "group": group,
        "namespace": namespace,
        "resource": kind,
        "subresource": subresource,
        "verb": verb,
    }
    attributes = _given(asked)
    return Call(
        what=f"ask whether it may {verb} {resource}",
        method="POST",
        path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    )


def who_am_i() -> Call:
    return Call(
        what="ask who it is",
        method="POST",
        path="/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )


def server_version() -> Call:
    return Call(what="ask the server's version", method="GET", path="/version")


def get_namespace(name: str) -> Call:
    return Call(what=f"get Namespace {name}", method="GET", path=f"/api/v1/namespaces/{quote(name, safe='')}")


def group(name: str) -> Call:
    """Which versions of an API group are served; a 404 is an answer, too."""
    return Call(what=f"look for the API {name}", method="GET", path=f"/apis/{name}")


def list_custom(api: str, namespace: str, kind: str) -> Call:
    """All of a kind of another API, e.g. "kueue.x-k8s.io/v1beta1"."""
    where = f"/apis/{api}/namespaces/{quote(namespace, safe='')}/{kind}"
    return Call(what=f"list {kind} in {namespace}", method="GET", path=where)


def _given(selector: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in selector.items() if value}
