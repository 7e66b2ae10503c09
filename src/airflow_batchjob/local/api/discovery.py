"""What the API says about itself: versions, groups, resources, schemas."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import lru_cache

from airflow_batchjob.local.api.openapi import openapi_v2, openapi_v3, openapi_v3_paths
from airflow_batchjob.local.api.request import Response
from airflow_batchjob.local.api.resources import GROUPS, RESOURCES, Resource
from airflow_batchjob.local.api.schema import kubernetes_version
from airflow_batchjob.local.store import Object

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
PLAIN = "text/plain; charset=utf-8"


def discover(path: str) -> Response | None:
    """Return the answer for a path that tells about the API, or None: it is not such a path."""
    if path in ("/healthz", "/livez", "/readyz"):
        return Response(body=b"ok", content_type=PLAIN)
    answer = _PATHS.get(path)
    if answer is not None:
        return Response(body=answer())
    parts = path.strip("/").split("/")
    match parts:
        case ["api", "v1"]:
            return Response(body=_resource_list("", "v1"))
        case ["apis", group] if group in GROUPS:
            return Response(body={"kind": "APIGroup", "apiVersion": "v1", **_group(group)})
        case ["apis", group, "v1"] if group in GROUPS:
            return Response(body=_resource_list(group, "v1"))
        case ["openapi", "v3", "api", "v1"]:
            return Response(body=openapi_v3(""))
        case ["openapi", "v3", "apis", group, "v1"] if group in GROUPS:
            return Response(body=openapi_v3(group))
    return None


def version() -> Object:
    """Return the body of /version: which Kubernetes this behaves like, and what it is."""
    major, minor, _ = kubernetes_version().removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{kubernetes_version()}+batchjob-local",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"{platform.system().lower()}/{_MACHINES.get(platform.machine(), platform.machine())}",
    }


def _versions() -> Object:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def _groups() -> Object:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in GROUPS]}


def _group(name: str) -> Object:
    served = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [served], "preferredVersion": served}


def _resource_list(group: str, version_: str) -> Object:
    resources: list[Object] = []
    for resource in RESOURCES:
        if resource.group == group and resource.version == version_:
            resources += _described(resource)
    name = f"{group}/{version_}" if group else version_
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _described(resource: Resource) -> list[Object]:
    about: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        about["shortNames"] = list(resource.short_names)
    if resource.categories:
        about["categories"] = list(resource.categories)
    parts = [about]
    for sub in resource.subresources:
        part: Object = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if sub.group_version:
            part["group"], _, part["version"] = sub.group_version.partition("/")
        parts.append(part)
    return parts


@lru_cache(maxsize=1)
def _root_paths() -> Object:
    paths = ["/api", "/api/v1", "/apis", *(f"/apis/{group}/v1" for group in GROUPS)]
    return {"paths": [*paths, "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}


_PATHS: Mapping[str, Callable[[], Object]] = {
    "/": _root_paths,
    "/api": _versions,
    "/apis": _groups,
    "/version": version,
    "/openapi/v2": openapi_v2,
    "/openapi/v3": openapi_v3_paths,
}
