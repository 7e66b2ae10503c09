"""A partial pod spec laid over a pod spec, list items meeting by Kubernetes' own keys.

Source: the patchMergeKey tags of core/v1,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.plain import plain

__all__ = ["merge_env", "merge_pod", "plain", "unmet_items"]

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
}
_APPENDED = frozenset({"tolerations", "envFrom"})

# Of these, an object has one at most: giving another takes the place of what is there.
_ALTERNATIVES = (
    frozenset({"value", "valueFrom"}),
    frozenset({"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"}),
    frozenset({"exec", "grpc", "httpGet", "sleep", "tcpSocket"}),
)


def merge_pod(base: Mapping[str, Any], patch: Mapping[str, Any], *, field: str = "pod") -> dict[str, Any]:
    """Return `base` changed by what `patch` gives; neither is changed.

    Maps are merged deeply. Items of containers, env, volumes and so on meet by Kubernetes' keys, new
    ones come last; tolerations and envFrom are appended; any other list is replaced. A value of None
    removes the key.

    Args:
        base: A pod spec.
        patch: A partial pod spec.
        field: What the patch is called, for errors.

    Raises:
        SpecError: An item of the patch lacks the key by which it would meet another.
    """
    patch = plain(patch)
    if problems := list(unmet_items(patch, field)):
        raise SpecError(*problems)
    merged: dict[str, Any] = _merged_maps(plain(base), patch)
    return merged


def merge_env(base: Iterable[Any], env: Mapping[str, Any], *, field: str = "env") -> list[dict[str, Any]]:
    """Return a container's `env` with the variables of `env` put in by name, new ones last.

    Args:
        base: The container's own list.
        env: Name to value: text, a number (its text), {"valueFrom": …}, or None to remove the variable.
        field: What `env` is called, for errors.

    Raises:
        SpecError: With every name and value that can't be an environment variable.
    """
    wanted, problems = {}, []
    for name, value in env.items():
        entry = _entry(name, plain(value), f"{field}[{name!r}]")
        if isinstance(entry, Problem):
            problems.append(entry)
        wanted[name] = entry
    if problems:
        raise SpecError(*problems)
    own = [plain(entry) for entry in base]
    at = {entry.get("name"): place for place, entry in enumerate(own)}  # of equal names the last one counts
    merged = [
        wanted.get(entry.get("name"), entry) if at[entry.get("name")] == place else entry
        for place, entry in enumerate(own)
        if wanted.get(entry.get("name"), entry) is not None
    ]
    return [*merged, *(entry for name, entry in wanted.items() if name not in at and entry is not None)]


def _entry(name: Any, value: Any, path: str) -> dict[str, Any] | Problem | None:
    if not isinstance(name, str) or not name or "=" in name:
        return Problem(path, value, "not the name of a variable", "Use text without '='", hide=True)
    if value is None:
        return None
    if isinstance(value, bool):
        why = "a program sees text, and whether that is true, True or 1 is for you to say"
        return Problem(path, value, why, f'Write "{str(value).lower()}"')
    if isinstance(value, (str, int, float)):
        return {"name": name, "value": str(value)}
    if isinstance(value, Mapping) and isinstance(value.get("valueFrom"), Mapping):
        return {"name": name, "valueFrom": value["valueFrom"]}
    return Problem(path, value, "neither text nor a number", 'Write text, or {"valueFrom": …}', hide=True)


def _merged_maps(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    outdone = {
        key
        for one_of in _ALTERNATIVES
        if any(patch.get(key) is not None for key in one_of)
        for key in one_of
        if key not in patch
    }
    merged = {key: value for key, value in base.items() if key not in outdone}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(key, merged.get(key), value)
    return merged


def _merged(key: str, base: Any, patch: Any) -> Any:
    if isinstance(patch, Mapping):
        return _merged_maps(base if isinstance(base, Mapping) else {}, patch)
    if not isinstance(patch, list):
        return patch
    given = [_merged_maps({}, item) if isinstance(item, Mapping) else item for item in patch]
    own = base if isinstance(base, list) else []
    if key in _APPENDED:
        return [*own, *(item for item in given if item not in own)]
    if key in _KEYS:
        merge = _retaining if key == "volumes" else _merged_maps
        return _merged_items(own, patch, lambda item: _meets_by(key, item), merge)
    return given


def _merged_items(
    own: Sequence[Any],
    patch: Sequence[Any],
    meets_by: Callable[[Any], Hashable],
    merge: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]],
) -> list[Any]:
    merged = list(own)
    places = {meets_by(item): place for place, item in reversed(list(enumerate(own)))}
    for item in patch:
        place = places.setdefault(meets_by(item), len(merged))
        if place < len(merged):
            merged[place] = merge(merged[place], item)
        else:
            merged.append(merge({}, item))
    return merged


def _retaining(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    # A volume has one source: what the patch doesn't name goes.
    return _merged_maps({key: value for key, value in base.items() if key in patch}, patch)


def _meets_by(key: str, item: Any) -> Hashable:
    if not isinstance(item, Mapping):
        return None
    if key == "ports":  # one number may be open for TCP and UDP
        return item.get("containerPort"), item.get("protocol") or "TCP"
    found = item.get(_KEYS[key])
    return found if isinstance(found, Hashable) else None


def unmet_items(patch: Any, path: str, key: str = "") -> Iterable[Problem]:
    """Yield the items of a partial pod, which is plain, that lack the key by which they meet others."""
    if isinstance(patch, Mapping):
        for name, value in patch.items():
            yield from unmet_items(value, f"{path}.{name}", str(name))
    elif isinstance(patch, list) and key in _KEYS:
        for at, item in enumerate(patch):
            where = f"{path}[{at}]"
            if not isinstance(item, Mapping) or not item.get(_KEYS[key]):
                why = f"without {_KEYS[key]} it is not clear which item of {key} it changes"
                yield Problem(where, item, why, f"Give {_KEYS[key]}")
            else:
                yield from unmet_items(item, where)
