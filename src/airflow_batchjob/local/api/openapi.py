"""The schemas of what is served, in OpenAPI: enough for clients that validate, explain or merge by it."""

from __future__ import annotations

from functools import cache, lru_cache

from airflow_batchjob.local.api.resources import GROUPS, RESOURCES, Resource
from airflow_batchjob.local.api.schema import kubernetes_version, split_list, types
from airflow_batchjob.local.store import Object

_SCALARS: dict[str, Object] = {
    "any": {},
    "boolean": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "double": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "intOrString": {"x-kubernetes-int-or-string": True},
    "number": {"type": "number"},
    "quantity": {"type": "string"},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}


@lru_cache(maxsize=1)
def openapi_v2() -> Object:
    """Return the document in version 2."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version()},
        "paths": {path: item for group in ("", *GROUPS) for path, item in _paths(group).items()},
        "definitions": _schemas("#/definitions/"),
    }


@lru_cache(maxsize=1)
def openapi_v3_paths() -> Object:
    """Return where the documents of version 3 are, a document for each group."""
    names = ["api/v1", *(f"apis/{group}/v1" for group in GROUPS)]
    return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}


@cache
def openapi_v3(group: str) -> Object:
    """Return a group's document in version 3."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version()},
        "paths": _paths(group),
        "components": {"schemas": _schemas("#/components/schemas/")},
    }


def _paths(group: str) -> Object:
    paths: Object = {}
    for resource in RESOURCES:
        if resource.group == group:
            root = f"/apis/{group}/{resource.version}" if group else f"/api/{resource.version}"
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            paths[f"{root}{scope}/{resource.plural}/{{name}}"] = {"patch": _patch(resource)}
            paths[f"{root}{scope}/{resource.plural}"] = {"post": _patch(resource)}
    return paths


def _patch(resource: Resource) -> Object:
    # kubectl leaves validation to the server where it sees that fieldValidation is known.
    query = [
        {"name": name, "in": "query", "schema": {"type": "string"}, "type": "string"}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {"x-kubernetes-group-version-kind": _kind(resource), "parameters": query, "responses": {}}


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schemas(prefix: str) -> Object:
    schemas: Object = {
        name: {
            "type": "object",
            "properties": {field: _schema(type_, prefix) for field, type_ in fields.items()},
        }
        for name, fields in types().items()
    }
    for resource in RESOURCES:
        schemas[resource.schema_type]["x-kubernetes-group-version-kind"] = [_kind(resource)]
    return schemas


def _schema(type_: str, prefix: str) -> Object:
    if type_.startswith("[]"):
        inner, key = split_list(type_)
        schema: Object = {"type": "array", "items": _schema(inner, prefix)}
        if key is not None:
            schema["x-kubernetes-patch-strategy"] = "merge"
        if key:
            schema["x-kubernetes-patch-merge-key"] = key
        return schema
    if type_.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(type_[2:], prefix)}
    return dict(_SCALARS[type_]) if type_ in _SCALARS else {"$ref": prefix + type_}
