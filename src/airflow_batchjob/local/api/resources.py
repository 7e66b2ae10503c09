"""The kinds that are served: one table that routing, discovery and messages read."""

from __future__ import annotations

from dataclasses import dataclass

READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A part of an object with a path of its own."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group_version: str = ""  # of what is sent, where that is not the resource's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    verbs: tuple[str, ...] = (*WRITE, *READ)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    stored_as: str = ""  # the plural in the store, where two resources show one kind of object
    type: str = ""  # the name in the schema, where it is not the kind

    @property
    def store_kind(self) -> str:
        return self.stored_as or self.plural

    @property
    def schema_type(self) -> str:
        return self.type or self.kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def deletes_by_default(self) -> str:
        """What becomes of the dependents where a deletion does not say: Jobs orphan theirs."""
        return "Orphan" if self.plural == "jobs" else "Background"


_STATUS = ("get", "update", "patch")

JOBS = Resource(
    plural="jobs",
    kind="Job",
    group="batch",
    categories=("all",),
    subresources=(Subresource(name="status", kind="Job", verbs=_STATUS),),
)
PODS = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource(name="eviction", kind="Eviction", verbs=("create",), group_version="policy/v1"),
        Subresource(name="log", kind="Pod", verbs=("get",)),
        Subresource(name="status", kind="Pod", verbs=_STATUS),
    ),
)
NODES = Resource(
    plural="nodes",
    kind="Node",
    namespaced=False,
    short_names=("no",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(Subresource(name="status", kind="Node", verbs=_STATUS),),
)
EVENTS = Resource(plural="events", kind="Event", short_names=("ev",))
NEW_EVENTS = Resource(
    plural="events",
    kind="Event",
    group="events.k8s.io",
    short_names=("ev",),
    verbs=("delete", "deletecollection", "get", "list", "watch"),
    type="events.Event",
)
SERVICES = Resource(plural="services", kind="Service", short_names=("svc",), categories=("all",))
SECRETS = Resource(plural="secrets", kind="Secret")
CONFIG_MAPS = Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",))
SERVICE_ACCOUNTS = Resource(plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",))
NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(Subresource(name="status", kind="Namespace", verbs=_STATUS),),
)
ACCESS_REVIEWS = Resource(
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    group="authorization.k8s.io",
    namespaced=False,
    verbs=("create",),
)

RESOURCES = (
    JOBS,
    PODS,
    NODES,
    EVENTS,
    NEW_EVENTS,
    SERVICES,
    SECRETS,
    CONFIG_MAPS,
    SERVICE_ACCOUNTS,
    NAMESPACES,
    ACCESS_REVIEWS,
)

GROUPS = tuple(dict.fromkeys(resource.group for resource in RESOURCES if resource.group))


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource at that path, or None."""
    for resource in RESOURCES:
        if (resource.group, resource.version, resource.plural) == (group, version, plural):
            return resource
    return None


def served() -> str:
    """Return all that is served, for messages."""
    return ", ".join(
        f"{resource.plural}.{resource.group}" if resource.group else resource.plural for resource in RESOURCES
    )
