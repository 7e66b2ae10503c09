"""Lists: selectors, pages of one consistent moment, and what a resource version in a list asks for."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.selectors import Test, field_test, label_test
from airflow_batchjob.local.api.status import (
    Problem,
    Problems,
    Refused,
    bad_request,
    failure,
    forbidden,
    invalid_object,
    not_supported,
)
from airflow_batchjob.local.moment import Moment
from airflow_batchjob.local.store import Expired, Object, Store

_MATCHES = ("Exact", "NotOlderThan", "")
Position = tuple[str, str]  # of an object in a list: its namespace and name
_BEFORE_ALL = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Part of a list, or all of it."""

    items: list[Object]
    version: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    version: int  # 0: whatever is there now
    after: Position


def selection(resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Test:
    """Return the test for what a list or watch takes in: namespace, labels, fields.

    Raises:
        Refused: 400, a selector cannot be read.
    """
    tests: list[Callable[[Object], bool]] = []
    if text := query.get("labelSelector", ""):
        tests.append(label_test(text))
    if text := query.get("fieldSelector", ""):
        tests.append(field_test(resource, text))

    def matches(obj: Object) -> bool:
        if namespace is not None and obj["metadata"].get("namespace") != namespace:
            return False
        return all(test(obj) for test in tests)

    return matches


def check_list_options(query: Mapping[str, str], *, watch: bool) -> None:
    """Refuse options that contradict each other, as Kubernetes does.

    Raises:
        Refused: 422 that names them all.
    """
    match = query.get("resourceVersionMatch", "")
    initial = query.get("sendInitialEvents", "")
    problems: Problems = []
    if match and match not in _MATCHES:
        problems.append(not_supported("resourceVersionMatch", match, _MATCHES))
    if watch:
        if initial and match != "NotOlderThan":
            words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            problems.append(forbidden("resourceVersionMatch", words))
        if match and not initial:
            words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(forbidden("resourceVersionMatch", words))
    else:
        problems += _list_problems(query, match, initial)
    if problems:
        raise _invalid_options(problems)


def _list_problems(query: Mapping[str, str], match: str, initial: str) -> Problems:
    problems: Problems = []
    version = query.get("resourceVersion", "")
    if initial:
        problems.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match and not version:
        words = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        problems.append(forbidden("resourceVersionMatch", words))
    if match and query.get("continue"):
        words = "resourceVersionMatch is forbidden when continue is provided"
        problems.append(forbidden("resourceVersionMatch", words))
    if match == "Exact" and version == "0":
        words = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        problems.append(forbidden("resourceVersionMatch", words))
    return problems


def _invalid_options(problems: list[Problem]) -> Refused:
    return invalid_object("ListOptions", "meta.k8s.io", "", problems)


def number_option(query: Mapping[str, str], name: str) -> int:
    """Return a whole number of the query, 0 where it is absent or empty.

    Raises:
        Refused: 400, it is none, or negative.
    """
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isdigit() or not text.isascii():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a number that is not negative")
    return int(text)


def too_large_version(version: int, current: int) -> Refused:
    """Return the 504 for a version that has not been reached."""
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Refused(failure(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}))


def list_page(store: Store, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Page:
    """Return what a list request asks for.

    Raises:
        Refused: 400, 410 (the version, or the token's, is too old), 422, or 504 (a version to come).
    """
    check_list_options(query, watch=False)
    matches = selection(resource, namespace, query)
    limit = 0 if query.get("limit", "").startswith("-") else number_option(query, "limit")
    asked = number_option(query, "resourceVersion")
    if asked > store.version:
        raise too_large_version(asked, store.version)
    token = _read_token(query["continue"]) if query.get("continue") else None
    exact = asked if query.get("resourceVersionMatch") == "Exact" else 0
    version = (token.version if token else exact) or store.version
    moment = _moment(store, resource, version, token)
    found = filter(matches, moment.objects(namespace, token.after if token else _BEFORE_ALL))
    # A version of 0 is answered from the API server's cache, which knows no pages.
    if not limit or query.get("resourceVersion") == "0":
        return Page(items=list(found), version=version)
    *page, beyond = [*itertools.islice(found, limit), next(found, None)]
    if beyond is None:
        return Page(items=page, version=version)
    end = _position(page[-1])
    selected = bool(query.get("labelSelector") or query.get("fieldSelector"))
    return Page(
        items=page,
        version=version,
        token=_write_token(version, end),
        remaining=None if selected else moment.count(namespace, end),
    )


def _moment(store: Store, resource: Resource, version: int, token: _Token | None) -> Moment:
    try:
        return store.at(resource.store_kind, version)
    except Expired as error:
        status = failure(
            410, "Expired", f"The provided continue parameter or resource version is too old: {error}"
        )
        if token:  # with it a client may go on, with what is there now
            status["metadata"] = {"continue": _write_token(0, token.after)}
        raise Refused(status) from None


def _position(obj: Object) -> Position:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def _write_token(version: int, after: Position) -> str:
    text = json.dumps({"v": version, "ns": after[0], "name": after[1]})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        content = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return _Token(int(content["v"]), (str(content["ns"]), str(content["name"])))
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise bad_request("continue key is not valid") from None


def list_metadata(page: Page) -> Object:
    """Return a list's own metadata."""
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata
