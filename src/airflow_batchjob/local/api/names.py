"""Names and labels: what Kubernetes accepts, in its own words, and names made from a prefix."""

from __future__ import annotations

import random
import re

from airflow_batchjob.local.api.status import Problem, Problems, invalid, required
from airflow_batchjob.local.store import Object

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
_STANDARD_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def generated_name(prefix: str) -> str:
    """Return `prefix`, cut so that all fits 63 characters, and five random ones."""
    return prefix[:58] + "".join(random.choices(_ALPHABET, k=5))  # noqa: S311  a name, not a secret


def dns_label_faults(value: str) -> list[str]:
    faults = [] if len(value) <= 63 else ["must be no more than 63 bytes"]
    return faults if _LABEL.fullmatch(value) else [*faults, _LABEL_WORDS]


def dns_subdomain_faults(value: str) -> list[str]:
    faults = [] if len(value) <= 253 else ["must be no more than 253 bytes"]
    return faults if _SUBDOMAIN.fullmatch(value) else [*faults, _SUBDOMAIN_WORDS]


def label_value_faults(value: str) -> list[str]:
    faults = [] if len(value) <= 63 else ["must be no more than 63 bytes"]
    return faults if not value or _NAME_PART.fullmatch(value) else [*faults, _VALUE_WORDS]


def qualified_name_faults(value: str) -> list[str]:
    """Return what is wrong with ``[prefix/]name``, as label keys and resource names are."""
    prefix, slash, name = value.rpartition("/")
    faults = []
    if slash:
        faults += [f"prefix part {fault}" for fault in dns_subdomain_faults(prefix)]
    if len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    return faults if _NAME_PART.fullmatch(name) else [*faults, _NAME_WORDS]


def label_problems(labels: dict[str, str], path: str) -> Problems:
    problems: Problems = []
    for key, value in labels.items():
        problems += [invalid(path, key, fault) for fault in qualified_name_faults(key)]
        problems += [invalid(path, value, fault) for fault in label_value_faults(value)]
    return problems


def metadata_problems(metadata: Object, *, dns_label: bool = False) -> Problems:
    """Return what is wrong with an object's metadata: name, labels, annotations, finalizers."""
    faults = (dns_label_faults if dns_label else dns_subdomain_faults)(metadata.get("name", ""))
    problems: list[Problem] = [invalid("metadata.name", metadata.get("name", ""), fault) for fault in faults]
    problems += label_problems(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        faults = qualified_name_faults(key.lower())
        problems += [invalid("metadata.annotations", key, fault) for fault in faults]
    for number, finalizer in enumerate(metadata.get("finalizers") or ()):
        field = f"metadata.finalizers[{number}]"
        problems += [invalid(field, finalizer, fault) for fault in qualified_name_faults(finalizer)]
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            words = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(invalid(field, finalizer, words))
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        path = f"metadata.ownerReferences[{number}]"
        problems += [
            required(f"{path}.{name}", "must not be empty")
            for name in ("apiVersion", "kind", "name", "uid")
            if not owner.get(name)
        ]
    return problems
