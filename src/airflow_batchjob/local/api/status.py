"""Refusals: every error of the API is a `Refused` that carries a Status object, as Kubernetes' errors do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_batchjob.local.store import Object


class Refused(Exception):  # noqa: N818  a refusal is an answer, not a fault
    """The API says no; `status` is the answer's body, `status["code"]` its HTTP code."""

    def __init__(self, status: Object) -> None:
        self.status = status
        super().__init__(status["message"])


class Cause(str, Enum):
    """Why one field is refused; the values are the API's reasons."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    NOT_FOUND = "FieldValueNotFound"


_WORDS = {
    Cause.REQUIRED: "Required value",
    Cause.INVALID: "Invalid value",
    Cause.NOT_SUPPORTED: "Unsupported value",
    Cause.DUPLICATE: "Duplicate value",
    Cause.FORBIDDEN: "Forbidden",
    Cause.TOO_LONG: "Too long",
    Cause.TOO_MANY: "Too many",
    Cause.NOT_FOUND: "Not found",
}
_SHOW_NO_VALUE = frozenset({Cause.REQUIRED, Cause.FORBIDDEN, Cause.TOO_LONG})
OMITTED = object()
"""A value not worth showing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that is refused."""

    field: str
    cause: Cause
    value: object
    detail: str

    @property
    def message(self) -> str:
        parts = [_WORDS[self.cause]]
        if self.cause not in _SHOW_NO_VALUE and self.value is not OMITTED:
            parts.append(_shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


Problems = list[Problem]


def _shown(value: object) -> str:
    return json.dumps(value, default=str, separators=(",", ":"), sort_keys=True)


def required(field: str, detail: str = "") -> Problem:
    return Problem(field, Cause.REQUIRED, OMITTED, detail)


def invalid(field: str, value: object, detail: str) -> Problem:
    return Problem(field, Cause.INVALID, value, detail)


def forbidden(field: str, detail: str) -> Problem:
    return Problem(field, Cause.FORBIDDEN, OMITTED, detail)


def duplicate(field: str, value: object) -> Problem:
    return Problem(field, Cause.DUPLICATE, value, "")


def too_long(field: str, limit: int) -> Problem:
    return Problem(field, Cause.TOO_LONG, OMITTED, f"may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Problem:
    return Problem(field, Cause.TOO_MANY, count, f"must have at most {limit} items")


def not_supported(field: str, value: object, supported: Sequence[str]) -> Problem:
    known = ", ".join(f'"{one}"' for one in supported)
    return Problem(field, Cause.NOT_SUPPORTED, value, f"supported values: {known}")


def qualified(plural: str, group: str) -> str:
    """Return a resource's name as messages write it: ``pods``, ``jobs.batch``."""
    return f"{plural}.{group}" if group else plural


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> Object:
    """Return a Status of a failure."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if not reason:
        del status["reason"]
    return status if details is None else {**status, "details": details}


def bad_request(message: str) -> Refused:
    return Refused(failure(400, "BadRequest", message))


def not_found(plural: str, group: str, name: str) -> Refused:
    message = f'{qualified(plural, group)} "{name}" not found'
    return Refused(failure(404, "NotFound", message, _details(name, group, plural)))


def already_exists(plural: str, group: str, name: str) -> Refused:
    message = f'{qualified(plural, group)} "{name}" already exists'
    return Refused(failure(409, "AlreadyExists", message, _details(name, group, plural)))


def conflict(plural: str, group: str, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return Refused(failure(409, "Conflict", message, _details(name, group, plural)))


def invalid_object(kind: str, group: str, name: str, problems: Sequence[Problem]) -> Refused:
    """Return the 422 that names every problem; the message drops repeated texts, the causes don't."""
    texts = list(dict.fromkeys(f"{problem.field}: {problem.message}" for problem in problems))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {
        **_details(name, group, kind),
        "causes": [
            {"reason": problem.cause.value, "message": problem.message, "field": problem.field}
            for problem in problems
        ],
    }
    message = f'{qualified(kind, group)} "{name}" is invalid: {listed}'
    return Refused(failure(422, "Invalid", message, details))


def unprocessable() -> Refused:
    """Return the 422 for a JSON patch that does not fit the object; Kubernetes does not say where."""
    message = "the server rejected our request due to an error in our request"
    return Refused(failure(422, "Invalid", message, {}))


def expired(message: str) -> Refused:
    return Refused(failure(410, "Expired", message))


def unsupported_media_type(message: str) -> Refused:
    return Refused(failure(415, "UnsupportedMediaType", message))


def not_served(what: str, served: str) -> Refused:
    message = f"the server could not find the requested resource: {what} is not served here. Served: {served}"
    return Refused(failure(404, "NotFound", message, {}))


def method_not_allowed(method: str, what: str, allowed: str) -> Refused:
    words = "the server does not allow this method on the requested resource"
    message = f"{words}: {method} on {what}; allowed: {allowed}"
    return Refused(failure(405, "MethodNotAllowed", message, {}))


def success(details: dict[str, Any]) -> Object:
    """Return the Status of a deletion that is over."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
