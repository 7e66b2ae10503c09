"""Strategic merge patch: a merge that knows which lists go by key, and its directives.

Understood: ``$patch: delete | replace | merge``, ``$retainKeys``, ``$deleteFromPrimitiveList/<field>`` and
``$setElementOrder/<field>``.
"""

from __future__ import annotations

from typing import Any

from airflow_batchjob.local.api.schema import split_list, types

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class BadPatch(ValueError):  # noqa: N818
    """The patch breaks the rules of strategic merge patches."""


def apply_strategic_patch(type_: str, document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document, of a type of the schema, with the patch merged in.

    Raises:
        BadPatch: A directive that does not exist, or an item without its list's key.
    """
    if not isinstance(patch, dict):
        raise BadPatch("a strategic merge patch is an object")
    return _merge(type_, document, patch)


def _merge(type_: str, document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.get(_PATCH, "merge")
    plain = {name: value for name, value in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive == "replace":
        return {name: _without_directives(value) for name, value in plain.items() if value is not None}
    if directive != "merge":
        raise BadPatch(f'Unrecognized {_PATCH} directive "{directive}": use merge, replace or delete')
    retained = plain.pop(_RETAIN, None)
    result = {k: v for k, v in document.items() if retained is None or k in retained}
    fields = types().get(type_, {})
    for name, value in plain.items():
        if name.startswith(_DELETE):
            field = name[len(_DELETE) :]
            kept = [item for item in result.get(field) or [] if item not in value]
            result[field] = kept
        elif not name.startswith(_ORDER):
            _merge_field(fields.get(name, _inner(type_)), result, name, value)
    for name, value in plain.items():
        if name.startswith(_ORDER):
            field = name[len(_ORDER) :]
            if result.get(field):
                result[field] = _ordered(fields.get(field, ""), result[field], value)
    return result


def _inner(type_: str) -> str:
    return type_[2:] if type_.startswith("{}") else "any"


def _merge_field(type_: str, result: dict[str, Any], name: str, value: Any) -> None:
    old = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        result[name] = _merge(type_, old if isinstance(old, dict) else {}, value)
    elif isinstance(value, list) and type_.startswith("[]"):
        result[name] = _merge_list(type_, old if isinstance(old, list) else [], value)
    else:
        result[name] = value


def _merge_list(type_: str, old: list[Any], patch: list[Any]) -> list[Any]:
    item_type, key = split_list(type_)
    if key is None:
        return [_without_directives(item) for item in patch]
    if key == "":  # a set of scalars
        return [*old, *(item for item in patch if item not in old)]
    replaces = {_PATCH: "replace"} in patch
    items = [item for item in patch if item != {_PATCH: "replace"}]
    result = [] if replaces else list(old)
    for item in items:
        if not isinstance(item, dict) or key not in item:
            raise BadPatch(f"map: {item} does not contain declared merge key: {key}")
        at = next((n for n, one in enumerate(result) if one.get(key) == item[key]), None)
        if item.get(_PATCH) == "delete":
            result = [one for one in result if one.get(key) != item[key]]
        elif at is None:
            result.append(_merge(item_type, {}, item))
        else:
            result[at] = _merge(item_type, result[at], item)
    return result


def _ordered(type_: str, items: list[Any], order: list[Any]) -> list[Any]:
    """Return the items in the order asked for; what it does not name comes last, as it was."""
    _, key = split_list(type_) if type_.startswith("[]") else ("", None)

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) and key else item

    wanted = [identity(item) for item in order]
    named = [item for item in items if identity(item) in wanted]
    named.sort(key=lambda item: wanted.index(identity(item)))
    return [*named, *(item for item in items if identity(item) not in wanted)]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_directives(item)
            for name, item in value.items()
            if not name.startswith("$") and item is not None
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value
