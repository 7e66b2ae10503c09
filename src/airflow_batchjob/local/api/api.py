"""From a request to its answer: finds who is meant, and hands over to who does it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from airflow_batchjob.local.api import access, eviction, logs, routing
from airflow_batchjob.local.api.bodies import read_object
from airflow_batchjob.local.api.deleting import Deleter, read_options
from airflow_batchjob.local.api.discovery import PLAIN, discover
from airflow_batchjob.local.api.listing import list_metadata, list_page, selection
from airflow_batchjob.local.api.negotiation import Form, wanted_form
from airflow_batchjob.local.api.new_events import as_new_event
from airflow_batchjob.local.api.request import Answer, Request, Response, Stream
from airflow_batchjob.local.api.resources import NEW_EVENTS, NODES, PODS, Resource
from airflow_batchjob.local.api.routing import Route
from airflow_batchjob.local.api.status import Refused, already_exists, invalid, invalid_object, not_found
from airflow_batchjob.local.api.tables import table
from airflow_batchjob.local.api.watching import BOOKMARK_SECONDS, Watches
from airflow_batchjob.local.api.writing import Writer, shown
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.store import Object, Store


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _no_machine(name: str) -> bool:
    raise KeyError(f"there is no machine {name!r}")


class Api:
    """The API over one store.

    Args:
        store: The cluster's state.
        log_store: Where pods' logs are.
        private_mounts: Whether this system lets a process have mounts of its own.
        clock: Gives the time, aware.
        bring_back: Makes a node of a machine by name, False where it is there; KeyError for no such machine.
        bookmark_seconds: How often quiet watches are told the version.
    """

    def __init__(
        self,
        store: Store,
        *,
        log_store: LogStore,
        private_mounts: bool = True,
        clock: Callable[[], datetime] = _now,
        bring_back: Callable[[str], bool] = _no_machine,
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        self._store = store
        self._logs = log_store
        self._clock = clock
        self._bring_back = bring_back
        self._writer = Writer(store, clock, private_mounts=private_mounts)
        self.deleter = Deleter(store, clock)
        self._watches = Watches(store, bookmark_seconds=bookmark_seconds)

    def close(self) -> None:
        """End all watches."""
        self._watches.close()

    def handle(self, request: Request) -> Answer:
        """Answer a request. Every refusal is an answer too; nothing is raised but faults of this code.

        Needs a running event loop for what is a `Stream`.
        """
        try:
            return self._handle(request)
        except Refused as refused:
            return Response(code=refused.status["code"], body=refused.status)

    def _handle(self, request: Request) -> Answer:
        if request.method in ("GET", "HEAD") and (found := discover(request.path)):
            return found
        route = routing.route(request)
        match route.verb:
            case "get":
                return self._get(request, route)
            case "list":
                return self._list(request, route)
            case "watch":
                return self._watch(request, route)
            case "create":
                return self._create(request, route)
            case "update":
                return self._writer.replace(
                    request, route.resource, route.namespace or "", route.name, route.subresource
                )
            case "patch":
                return self._writer.patch(
                    request, route.resource, route.namespace or "", route.name, route.subresource
                )
            case "delete":
                options = read_options(request)
                return self.deleter.delete_one(route.resource, route.namespace or "", route.name, options)
            case "deletecollection":
                return self._delete_all(request, route)
        raise AssertionError(route.verb)  # routing knows no other

    def _find(self, route: Route) -> Object:
        found = self._store.get(route.resource.store_kind, route.namespace or "", route.name)
        if found is None:
            raise not_found(route.resource.plural, route.resource.group, route.name)
        return found

    def _get(self, request: Request, route: Route) -> Answer:
        if route.subresource == "log":
            return self._log(request, self._find(route))
        form = wanted_form(request)
        obj = self._find(route)
        if form is Form.TABLE:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            include = request.query.get("includeObject", "")
            return Response(body=table(route.resource, [obj], metadata, include, self._clock()))
        return Response(body=_shown(route.resource, obj))

    def _list(self, request: Request, route: Route) -> Response:
        form = wanted_form(request)
        resource = route.resource
        page = list_page(self._store, resource, route.namespace, request.query)
        metadata = list_metadata(page)
        if form is Form.TABLE:
            include = request.query.get("includeObject", "")
            return Response(body=table(resource, page.items, metadata, include, self._clock()))
        items = [_without_kind(_shown(resource, obj)) for obj in page.items]
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Response(body={**head, "metadata": metadata, "items": items})

    def _watch(self, request: Request, route: Route) -> Stream:
        resource = route.resource
        show: Callable[[Object], Object]
        if wanted_form(request) is Form.TABLE:
            include = request.query.get("includeObject", "")

            def show(obj: Object) -> Object:
                version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                return table(resource, [obj], version, include, self._clock())

        else:

            def show(obj: Object) -> Object:
                return _shown(resource, obj)

        return Stream(chunks=self._watches.stream(resource, route.namespace, request.query, show))

    def _create(self, request: Request, route: Route) -> Response:
        if route.subresource == "eviction":
            namespace = route.namespace or ""
            return eviction.evict(request, self._store, self.deleter, self._clock, namespace, route.name)
        if route.resource.plural == "selfsubjectaccessreviews":
            return access.review(request)
        if route.resource is NODES:
            return self._create_node(request)
        return self._writer.create(request, route.resource, route.namespace or "")

    def _create_node(self, request: Request) -> Response:
        """Bring back a machine: a node is no more than what stands for one."""
        name = read_object(request, NODES).object["metadata"].get("name", "")
        words = "a node stands for a machine that was declared when the cluster started"
        try:
            is_new = self._bring_back(name)
        except KeyError as error:
            problem = invalid("metadata.name", name, f"{words}: {error.args[0]}")
            raise invalid_object("Node", "", name, [problem]) from None
        if not is_new:
            raise already_exists("nodes", "", name)
        return Response(code=201, body=shown(NODES, self._store.get("nodes", "", name) or {}))

    def _delete_all(self, request: Request, route: Route) -> Response:
        resource, options = route.resource, read_options(request)
        matches = selection(resource, route.namespace, request.query)
        found = [obj for obj in self._store.list(resource.store_kind) if matches(obj)]
        if not options.dry_run:
            for obj in found:
                self.deleter.delete(resource, obj, options)
        metadata = {"resourceVersion": str(self._store.version)}
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        return Response(body={**head, "items": [_without_kind(_shown(resource, obj)) for obj in found]})

    def _log(self, request: Request, pod: Object) -> Answer:
        metadata = pod["metadata"]
        query = logs.read_log_options(request.query, metadata["name"], self._clock())
        container = logs.choose_container(pod, request.query.get("container", ""))
        previous = request.asks("previous")
        attempt = logs.attempt_of(pod, container, self._logs, previous=previous)
        if attempt is None:
            return Response(code=204, content_type=PLAIN)

        def is_over() -> bool:
            now = self._store.get(PODS.plural, metadata["namespace"], metadata["name"])
            is_another = now is not None and now["metadata"]["uid"] != metadata["uid"]
            return is_another or logs.has_ended(now, container, attempt)

        return Stream(
            chunks=self._logs.read(metadata["uid"], container, attempt, query, is_over), content_type=PLAIN
        )


def _shown(resource: Resource, obj: Object) -> Object:
    return as_new_event(obj) if resource is NEW_EVENTS else shown(resource, obj)


def _without_kind(obj: Object) -> Object:
    # Items of a list say no kind, as with Kubernetes: the list's own kind says it.
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
