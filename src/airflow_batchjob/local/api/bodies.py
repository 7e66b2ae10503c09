"""From a request's body to an object of the kind that its path names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from airflow_batchjob.local.api.protobuf import MEDIA_TYPE, read_protobuf
from airflow_batchjob.local.api.request import Request
from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.schema import WrongType, decode, parse_json
from airflow_batchjob.local.api.status import (
    Problem,
    Refused,
    bad_request,
    invalid,
    invalid_object,
    not_supported,
    unsupported_media_type,
)
from airflow_batchjob.local.store import Object

_VALIDATION = ("", "Ignore", "Strict", "Warn")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


@dataclass(frozen=True, slots=True)
class Body:
    """An object as the client sent it, read and put into its stored form."""

    object: Object
    warnings: tuple[str, ...] = ()


def parse(request: Request, schema_type: str) -> Any:
    """Read a body as JSON, YAML or protocol buffers, by its content type; for the latter its type counts.

    Raises:
        Refused: 400 for what cannot be read, 415 for another content type.
    """
    kind = request.content_type or "application/json"
    if kind == MEDIA_TYPE:
        try:
            return read_protobuf(request.body, schema_type)
        except ValueError as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None
    if kind != "application/json" and kind not in _YAML:
        raise unsupported_media_type(
            f"the body of the request was in an unknown format: {kind}; "
            "accepted media types include: application/json, application/yaml"
        )
    reader: Callable[[bytes], Any] = parse_json if kind == "application/json" else yaml.safe_load
    try:
        return reader(request.body)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def read_object(request: Request, resource: Resource) -> Body:
    """Read the body as an object of `resource`.

    Raises:
        Refused: 400 or 415; what is wrong with the values is left to the rules of the kind.
    """
    tree = parse(request, resource.schema_type)
    return read_tree(tree, request, resource.kind, resource.api_version, resource.schema_type)


def read_tree(tree: Any, request: Request, kind: str, api_version: str, schema_type: str) -> Body:
    """Read parsed JSON as an object of a kind, and complain of fields as the request wants it.

    Raises:
        Refused: 400, it is not such an object.
    """
    _check_kind(tree, kind, api_version)
    validation = field_validation(request)
    try:
        decoded = decode(schema_type, tree)
    except WrongType as error:
        raise _unreadable(request, tree, kind, api_version, str(error)) from None
    if decoded.unknown and validation == "Strict":
        why = f"strict decoding error: {', '.join(decoded.unknown)}"
        raise _unreadable(request, tree, kind, api_version, why)
    warnings = decoded.unknown if validation == "Warn" else ()
    obj = {"apiVersion": api_version, "kind": kind, **decoded.object}
    if "metadata" not in obj:
        obj["metadata"] = {}
    return Body(obj, warnings)


def _unreadable(request: Request, tree: Any, kind: str, api_version: str, why: str) -> Refused:
    if request.method == "PATCH":
        return invalid_object("", "", "", [invalid("patch", json.dumps(tree), why)])
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _check_kind(tree: Any, kind: str, api_version: str) -> None:
    if not isinstance(tree, Mapping):
        raise bad_request(f"the object provided is unrecognized (must be a {kind} as a JSON object)")
    sent_kind, sent_version = tree.get("kind") or kind, tree.get("apiVersion") or api_version
    if sent_version != api_version:
        raise bad_request(
            f"the API version in the data ({sent_version}) does not match "
            f"the expected API version ({api_version})"
        )
    if sent_kind != kind:
        version = api_version.rpartition("/")[2]
        raise bad_request(
            f'{sent_kind} in version "{version}" cannot be handled as a {kind}: it is another kind'
        )


def field_validation(request: Request) -> str:
    """Return Ignore, Warn or Strict.

    Raises:
        Refused: 422 for anything else.
    """
    chosen = request.query.get("fieldValidation") or "Warn"
    if chosen not in _VALIDATION:
        raise _invalid_option(request, not_supported("fieldValidation", chosen, _VALIDATION))
    return chosen


def check_dry_run(request: Request) -> None:
    """Refuse a dryRun other than All, as a slip there would write in earnest."""
    chosen = request.query.get("dryRun", "")
    if chosen not in ("", "All"):
        raise _invalid_option(request, not_supported("dryRun", [chosen], ("All",)))


def _invalid_option(request: Request, problem: Problem) -> Refused:
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}.get(
        request.method, "DeleteOptions"
    )
    return invalid_object(kind, "meta.k8s.io", "", [problem])
