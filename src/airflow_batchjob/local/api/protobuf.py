"""Bodies in protocol buffers, which newer kubectl sends from `create job`, `drain` and the like.

Only read, never written: an answer is JSON, which every client takes. Turns the bytes into the same tree
as JSON would be; `schema.decode` does the rest.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from airflow_batchjob.local.api.schema import numbers, split_list, types

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KEY, _VALUE = 1, 2


class BadProtobuf(ValueError):  # noqa: N818
    """The bytes are not what they should be."""


def read_protobuf(data: bytes, schema_type: str) -> dict[str, Any]:
    """Return the tree of an object of a type of the schema, from Kubernetes' envelope around it.

    Raises:
        BadProtobuf: It is cut, or no such envelope.
    """
    if not data.startswith(_MAGIC):
        raise BadProtobuf("protocol buffers of Kubernetes begin with k8s and a zero byte")
    envelope = dict(_fields(data[len(_MAGIC) :]))
    head = dict(_fields(_bytes(envelope.get(1, b""))))
    tree = _message(schema_type, _bytes(envelope.get(2, b"")))
    named = {"apiVersion": _bytes(head.get(1, b"")), "kind": _bytes(head.get(2, b""))}
    return {**{name: value.decode() for name, value in named.items() if value}, **tree}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of a message: integers for varints, bytes for all else."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, position = _varint(data, position)
        if size is None or position + size > len(data):
            raise BadProtobuf("the message is cut or not well formed")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise BadProtobuf("a number is cut or too long")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _message(type_: str, data: bytes, owner: str = "") -> dict[str, Any]:
    """Read a message; `owner` is the type that it is embedded in, which then lists its fields' types."""
    names, fields = numbers().get(type_, {}), types().get(owner or type_, {})
    tree: dict[str, Any] = {}
    for number, value in _fields(data):
        name = names.get(str(number))
        if name is None:
            raise BadProtobuf(f"{type_} has no field of number {number}")
        if name.startswith("="):
            tree.update(_message(name[1:], _bytes(value), owner or type_))
        else:
            _take(tree, name, fields[name], value)
    return tree


def _take(tree: dict[str, Any], name: str, type_: str, value: int | bytes) -> None:
    if type_.startswith("[]"):
        inner, _ = split_list(type_)
        tree.setdefault(name, []).extend(_items(inner, value))
    elif type_.startswith("{}"):
        pair = dict(_fields(_bytes(value)))
        key = _bytes(pair.get(_KEY, b"")).decode()
        tree.setdefault(name, {})[key] = _single(type_[2:], pair.get(_VALUE, b""))
    elif (read := _single(type_, value)) != "" or type_ not in ("string", "time"):
        # Fields that are not optional are always sent; an empty text stands for none.
        tree[name] = read


def _items(type_: str, value: int | bytes) -> list[Any]:
    if type_ in ("int32", "int64") and isinstance(value, bytes):  # packed
        numbers_, position = [], 0
        while position < len(value):
            number, position = _varint(value, position)
            numbers_.append(_signed(number))
        return numbers_
    return [_single(type_, value)]


def _single(type_: str, value: int | bytes) -> Any:
    match type_:
        case "int32" | "int64":
            return _signed(value if isinstance(value, int) else 0)
        case "boolean":
            return bool(value)
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "quantity":
            return _bytes(dict(_fields(_bytes(value))).get(1, b"0")).decode()
        case "time":
            return _time(_bytes(value))
        case "intOrString":
            parts = dict(_fields(_bytes(value)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(int(parts.get(2, 0)))
        case "any":
            return None
    return _message(type_, _bytes(value))


def _time(data: bytes) -> str:
    seconds = dict(_fields(data)).get(1)
    if not isinstance(seconds, int):
        return ""
    return datetime.fromtimestamp(_signed(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise BadProtobuf("a number stands where a message or text should")
    return value
