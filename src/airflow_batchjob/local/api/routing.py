"""From method and path to a verb on a resource."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_batchjob.local.api.request import Request
from airflow_batchjob.local.api.resources import Resource, find, served
from airflow_batchjob.local.api.status import Refused, bad_request, method_not_allowed, not_served


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request is about."""

    verb: str
    resource: Resource
    namespace: str | None = None  # None: all of them, or the kind has none
    name: str = ""
    subresource: str = ""


def route(request: Request) -> Route:
    """Return what a request is about.

    Raises:
        Refused: 400, 404 or 405, naming what is served.
    """
    found = _split(request.path)
    if found is None:
        raise not_served(request.path, served())
    resource, namespace, rest = found
    name, subresource = (*rest, "", "")[:2]
    if len(rest) > 2:
        raise not_served(request.path, served())
    verbs = resource.verbs
    if subresource:
        known = {sub.name: sub for sub in resource.subresources}
        if subresource not in known:
            names = ", ".join(known) or "none"
            raise not_served(f"{resource.plural}/{subresource}", f"{names} (below {resource.plural})")
        verbs = known[subresource].verbs
    verb = _verb(request, name)
    # Objects are created below their kind, never at a name; parts of them at both.
    if verb not in verbs or (verb == "create" and name and not subresource):
        raise _not_allowed(request, resource, subresource, verbs)
    if verb == "create" and resource.namespaced and namespace is None:
        raise bad_request("an empty namespace may not be set during creation")
    return Route(verb=verb, resource=resource, namespace=namespace, name=name, subresource=subresource)


def _split(path: str) -> tuple[Resource, str | None, list[str]] | None:
    """Return the resource, the namespace and what follows the plural."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    # /namespaces/x/pods is about pods, /namespaces/x and /namespaces/x/status about a namespace.
    if len(rest) >= 3 and rest[0] == "namespaces":
        resource = find(group, version, rest[2])
        if resource is not None and resource.namespaced:
            return resource, rest[1], rest[3:]
    resource = find(group, version, rest[0]) if rest else None
    if resource is None or (resource.namespaced and len(rest) > 1):
        return None
    return resource, None, rest[1:]


def _verb(request: Request, name: str) -> str:
    match request.method:
        case "GET" | "HEAD":
            if name:
                return "get"
            return "watch" if request.asks("watch") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if name else "deletecollection"
    return request.method


def _not_allowed(request: Request, resource: Resource, subresource: str, verbs: tuple[str, ...]) -> Refused:
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return method_not_allowed(request.method, what, ", ".join(verbs))
