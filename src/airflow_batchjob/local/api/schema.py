"""What fields each type has: reads a body into an object as the API stores it.

`decode` drops what Kubernetes' types do not keep (nulls, empty maps and lists, zeros of fields that have
no other way to be absent), writes quantities in their one form, collects unknown and repeated fields, and
refuses wrong types.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from importlib.resources import files
from typing import Any

from airflow_batchjob.local.api.quantity import canonical

Types = Mapping[str, Mapping[str, str]]


class WrongType(ValueError):  # noqa: N818
    """A value is not of its field's type; the text names both."""


class Repeated(dict[str, Any]):
    """A JSON object in which some names stood more than once."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body read: the object, and what strict decoding would not have taken."""

    object: dict[str, Any]
    unknown: tuple[str, ...]  # as messages: `unknown field "spec.foo"`


@dataclass(slots=True)
class _Reading:
    types: Types
    owner: str = ""  # the type whose field is being read, which messages name
    complaints: list[str] = field(default_factory=list)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((files(__package__) / "schema.json").read_text())
    return document


def types() -> Types:
    """Return every type: name → field → its type.

    A field's type is a scalar (string, int32, quantity, …), the name of a type, ``[]T`` (with
    ``@key`` where patches merge it by that key, a bare ``@`` for sets of scalars) or ``{}T``.
    """
    known: Types = _document()["types"]
    return known


def numbers() -> Types:
    """Return each type's fields by their numbers in protocol buffers; ``=T`` for an embedded T."""
    known: Types = _document()["numbers"]
    return known


@lru_cache(maxsize=1)
def _zeros_left_out() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(fields) for name, fields in _document()["zerosLeftOut"].items()}


def kubernetes_version() -> str:
    """Return the version whose fields these are, e.g. ``v1.37.2``."""
    return str(_document()["kubernetes"])


def split_list(type_: str) -> tuple[str, str | None]:
    """Return a list type's item type and its merge key; None: patches replace the list."""
    inner, marked, key = type_[2:].partition("@")
    return inner, key if marked else None


def parse_json(text: bytes | str) -> Any:
    """Read JSON and remember which names were repeated, for `decode`.

    Raises:
        ValueError: It is not JSON.
    """
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    names = [name for name, _ in pairs]
    repeated = Repeated(plain)
    repeated.names = tuple(sorted({name for name in names if names.count(name) > 1}))
    return repeated


def decode(type_: str, value: Any) -> Decoded:
    """Read a JSON value as an object of a type.

    Raises:
        WrongType: Some value is not of its field's type.
    """
    reading = _Reading(types())
    return Decoded(_struct(reading, type_, value, ""), tuple(reading.complaints))


def _struct(reading: _Reading, type_: str, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongType(_mismatch(reading, value, path, f"v1.{type_}"))
    if isinstance(value, Repeated):
        reading.complaints += [f'duplicate field "{_join(path, name)}"' for name in value.names]
    fields = reading.types[type_]
    left_out = _zeros_left_out().get(type_, frozenset())
    result = {}
    for name, item in value.items():
        inner = fields.get(name)
        if inner is None:
            reading.complaints.append(f'unknown field "{_join(path, name)}"')
        elif item is not None:
            reading.owner = type_
            read = _value(reading, inner, item, _join(path, name))
            if read is not None and (read or name not in left_out):
                result[name] = read
    return result


def _value(reading: _Reading, type_: str, value: Any, path: str) -> Any:
    """Return the value as it is stored; None: it isn't."""
    if type_.startswith("[]"):
        if not isinstance(value, list):
            raise WrongType(_mismatch(reading, value, path, "list"))
        inner, _ = split_list(type_)
        return [_value(reading, inner, item, f"{path}[{n}]") for n, item in enumerate(value)] or None
    if type_.startswith("{}"):
        if not isinstance(value, dict):
            raise WrongType(_mismatch(reading, value, path, "map"))
        inner = type_[2:]
        return {key: _value(reading, inner, item, f"{path}.{key}") for key, item in value.items()} or None
    if type_ in reading.types:
        return _struct(reading, type_, value, path)
    return _scalar(reading, type_, value, path)


def _scalar(reading: _Reading, type_: str, value: Any, path: str) -> Any:
    match type_:
        case "any":
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "int32" | "int64" if type(value) is int:
            if not -(2 ** (int(type_[3:]) - 1)) <= value < 2 ** (int(type_[3:]) - 1):
                raise WrongType(
                    f"json: cannot unmarshal number {value} into Go struct field "
                    f"{reading.owner}.{path} of type {type_}"
                )
            return value
        case "number" | "double" if type(value) in (int, float):
            return value
        case "quantity" if type(value) in (str, int, float):
            return _quantity(value)
        case "intOrString" if type(value) in (str, int):
            return value
        case "string" | "bytes" | "time" if isinstance(value, str):
            return _text(type_, value, path)
    raise WrongType(_mismatch(reading, value, path, type_))


def _text(type_: str, value: str, path: str) -> str:
    if type_ == "bytes":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise WrongType(f"{path}: illegal base64 data") from None
    if type_ == "time":
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise WrongType(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00" at {path}') from None
        if moment.tzinfo is None:
            raise WrongType(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00" at {path}: no time zone')
        return value if value.endswith("Z") else _utc(moment)
    return value


def _utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quantity(value: str | float) -> str:
    try:
        return canonical(value)
    except ValueError as error:
        raise WrongType(str(error)) from None


def _mismatch(reading: _Reading, value: Any, path: str, type_: str) -> str:
    kinds = {str: "string", bool: "bool", dict: "object", list: "array", int: "number", float: "number"}
    kind = kinds.get(type(value), "object" if isinstance(value, dict) else "null")
    field = f"{reading.owner}.{path}" if path else "the object"
    return f"json: cannot unmarshal {kind} into Go struct field {field} of type {type_}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
