"""Label and field selectors: text in, a test of objects out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.status import bad_request
from airflow_batchjob.local.store import Object

Test = Callable[[Object], bool]
_LabelTest = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=!\s]*)")
_KEY = re.compile(r"(?P<absent>!?)\s*(?P<key>[^=!\s(),]+)")
_NOT_IN_PARENTHESES = re.compile(r",(?![^()]*\))")


def label_test(text: str) -> Test:
    """Return the test for a label selector; an empty one takes everything.

    Raises:
        Refused: 400, it cannot be read.
    """
    tests = [_label_requirement(part.strip(), text) for part in _split(text)]

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _split(text: str) -> list[str]:
    return _NOT_IN_PARENTHESES.split(text) if text.strip() else []


def _label_requirement(part: str, whole: str) -> _LabelTest:
    if found := _SET.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(part):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _KEY.fullmatch(part):
        key = found["key"]
        if found["absent"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f"unable to parse requirement {part!r} of label selector {whole!r}")


def matches_label_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether labels match a LabelSelector object; an empty one matches all."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_matches(one, labels) for one in selector.get("matchExpressions") or ())


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


# By store kind: the field selectors Kubernetes knows beside metadata.name and metadata.namespace,
# and what an object without that field counts as.
_FIELDS: dict[str, dict[str, str]] = {
    "jobs": {"status.successful": "0"},
    "pods": {
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.nominatedNodeName": "",
    },
    "nodes": {"spec.unschedulable": "false"},
    "namespaces": {"status.phase": ""},
    "secrets": {"type": ""},
    "services": {"spec.clusterIP": "", "spec.type": ""},
    "events": {
        **{
            f"involvedObject.{name}": ""
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
    },
}
_READ_FROM = {
    "status.successful": ("status", "succeeded"),
    "source": ("source", "component"),
}


def field_test(resource: Resource, text: str) -> Test:
    """Return the test for a field selector of a kind; an empty one takes everything.

    Raises:
        Refused: 400, it cannot be read or names a field that this kind cannot be selected by.
    """
    known = {"metadata.name": "", "metadata.namespace": "", **_FIELDS.get(resource.store_kind, {})}
    wanted: list[tuple[tuple[str, ...], str, bool, str]] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        found = _EQUAL.fullmatch(part)
        if found is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        name = found["key"]
        if resource.group == "events.k8s.io":  # it calls the same thing by another name
            name = name.replace("regarding.", "involvedObject.")
        if name not in known:
            names = ", ".join(sorted(known))
            raise bad_request(f'field label "{name}" not supported for {resource.kind}; supported: {names}')
        path = _READ_FROM.get(name, tuple(name.split(".")))
        wanted.append((path, found["value"], found["operator"] != "!=", known[name]))

    def matches(obj: Object) -> bool:
        return all((_read(obj, path, absent) == value) is equal for path, value, equal, absent in wanted)

    return matches


def _read(obj: Any, path: tuple[str, ...], absent: str) -> str:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    if obj is None:
        return absent
    return str(obj).lower() if isinstance(obj, bool) else str(obj)
