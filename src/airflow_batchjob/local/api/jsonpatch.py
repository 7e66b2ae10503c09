"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386). Values in, a new value out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_OPERATIONS = 10_000


class CannotApply(ValueError):  # noqa: N818
    """The patch is well formed and does not fit the document: a failed test, a missing path."""


class NotAPatch(ValueError):  # noqa: N818
    """It is not even well formed."""


def check_operations(operations: Any) -> Sequence[Mapping[str, Any]]:
    """Return the operations of a JSON Patch.

    Raises:
        NotAPatch: It is no list of operations.
    """
    if not isinstance(operations, list):
        raise NotAPatch("a JSON Patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise NotAPatch(
            f"the allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise NotAPatch("each operation of a JSON Patch is an object with op and path")
    return operations


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return the document with the operations applied in order, all or none.

    Raises:
        CannotApply: A test failed, or a path is not there.
    """
    result = _copied(document)
    for operation in operations:
        result = _apply(result, operation)
    return result


def _copied(value: Any) -> Any:
    """Return a copy that shares nothing: not with the original, nor, as `deepcopy` would, within itself."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "test":
            if _get(document, path, operation) != operation.get("value"):
                raise CannotApply(f"testing path {operation['path']} failed: the values differ")
            return document
        case "add":
            return _put(document, path, _copied(operation.get("value")), operation, insert=True)
        case "replace":
            _get(document, path, operation)
            return _put(document, path, _copied(operation.get("value")), operation, insert=False)
        case "remove":
            return _remove(document, path, operation)
        case "move" | "copy" as name:
            source = _pointer(str(operation.get("from", "")))
            value = _copied(_get(document, source, operation))
            if name == "move":
                document = _remove(document, source, operation)
            return _put(document, path, value, operation, insert=True)
    raise CannotApply(f"unexpected kind: {operation.get('op')}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise CannotApply(f"path {text!r} does not begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: Sequence[str], operation: Mapping[str, Any]) -> Any:
    for name in path:
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list):
            document = document[_index(name, len(document) - 1, operation)]
        else:
            raise CannotApply(_missing(operation))
    return document


def _put(
    document: Any, path: Sequence[str], value: Any, operation: Mapping[str, Any], *, insert: bool
) -> Any:
    if not path:
        return value
    parent, name = _get(document, path[:-1], operation), path[-1]
    if isinstance(parent, dict):
        parent[name] = value
    elif isinstance(parent, list) and insert:
        parent.insert(len(parent) if name == "-" else _index(name, len(parent), operation), value)
    elif isinstance(parent, list):
        parent[_index(name, len(parent) - 1, operation)] = value
    else:
        raise CannotApply(_missing(operation))
    return document


def _remove(document: Any, path: Sequence[str], operation: Mapping[str, Any]) -> Any:
    _get(document, path, operation)
    if not path:
        return None
    parent, name = _get(document, path[:-1], operation), path[-1]
    del parent[int(name) if isinstance(parent, list) else name]
    return document


def _index(name: str, last: int, operation: Mapping[str, Any]) -> int:
    if not name.isdigit() or int(name) > last:
        raise CannotApply(_missing(operation))
    return int(name)


def _missing(operation: Mapping[str, Any]) -> str:
    words = "operation does not apply: doc is missing path"
    return f"{operation.get('op')} {words}: {operation['path']}: missing value"


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the document with the patch merged in: null removes, an object merges, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result
