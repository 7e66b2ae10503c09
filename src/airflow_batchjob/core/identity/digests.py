"""Short digests of what decides an index's result: equal digests mean that what is done stays done.

Resources, placement, parallelism, budgets and deadlines are left out on purpose: people raise the
memory on a retry, and the indexes that succeeded with less are still right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

RESUME_KEY = "resume_key"

_DIGEST_LENGTH = 12
_OF_A_CONTAINER = ("image", "command", "args", "workingDir", "env", "envFrom", "volumeMounts")


def digest_of(value: Any, length: int) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a JSON value; equal values have equal digests."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def digests(manifest: Mapping[str, Any], resume_key: str | None = None) -> dict[str, str]:
    """Return a short digest for each field that decides an index's result.

    Fields that are absent or empty have none. A field of several containers has one digest over all
    of them, by their names.

    Args:
        manifest: A batch/v1 Job as its author asks for it, before anything is injected.
        resume_key: Stands in for all fields, where the manifest holds what differs every time.
    """
    if resume_key is not None:
        return {RESUME_KEY: digest_of(resume_key, _DIGEST_LENGTH)}
    return {field: digest_of(value, _DIGEST_LENGTH) for field, value in _deciding(manifest).items() if value}


def changed_fields(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the fields whose digests differ, sorted; one that came or went is changed."""
    return sorted(field for field in {*old, *new} if old.get(field) != new.get(field))


def _deciding(manifest: Mapping[str, Any]) -> dict[str, Any]:
    spec = manifest.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or []
    completions = spec.get("completions")
    return {
        **{field: _by_name(containers, field) for field in _OF_A_CONTAINER},
        # The order of volumes means nothing, that of init containers does.
        "volumes": sorted(pod.get("volumes") or [], key=lambda volume: str(volume.get("name"))),
        "initContainers": [_without_resources(container) for container in pod.get("initContainers") or []],
        "completions": None
        if completions is None
        else [completions, spec.get("completionMode") or "NonIndexed"],
    }


def _by_name(containers: list[Mapping[str, Any]], field: str) -> dict[str, Any]:
    return {
        str(container.get("name") or at): container[field]
        for at, container in enumerate(containers)
        if container.get(field)
    }


def _without_resources(container: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("name", "restartPolicy", *_OF_A_CONTAINER)
    return {field: container[field] for field in kept if container.get(field)}
