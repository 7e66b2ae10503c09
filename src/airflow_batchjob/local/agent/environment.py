"""A container's environment, command and arguments, as Kubernetes works them out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING
from typing import Any

from airflow_batchjob.local.api.quantity import amount

Object = dict[str, Any]

Lookup = Callable[[str, str], "Object | None"]
"""From plural and name to the object in the pod's namespace, e.g. ``("configmaps", "settings")``."""

ADDRESS = "127.0.0.1"  # there is no network but the machine's own

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")
_KEYED = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")


class ConfigError(Exception):
    """The container cannot be configured yet; the message is the kubelet's for it."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` where the name is known; ``$$`` stands for one dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "$"
        return env.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def command_line(container: Object, env: Mapping[str, str]) -> list[str]:
    """Return the command with its arguments, references replaced."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(word, env) for word in words]


def container_env(
    container: Object, pod: Object, lookup: Lookup, allocatable: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that the pod sets for a container.

    Args:
        container: Its spec.
        pod: The pod it is in, with its node.
        lookup: Finds config maps and secrets.
        allocatable: Of the node: what an absent limit stands for.

    Raises:
        ConfigError: A config map, a secret or a key is missing.
    """
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        env.update(_all_from(source, lookup))
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if source is None:
            env[entry["name"]] = expand(entry.get("value") or "", env)
        else:
            value = _value_from(source, container, pod, lookup, allocatable)
            if value is not None:
                env[entry["name"]] = value
    return env


def field_value(pod: Object, path: str) -> str:
    """Return what a fieldRef stands for.

    Raises:
        ConfigError: There is no such field.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _KEYED.fullmatch(path):
        return str((metadata.get(match["map"]) or {}).get(match["key"], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = (metadata.get(path.split(".")[1]) or {}).items()
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        **dict.fromkeys(("status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"), ADDRESS),
    }
    if path not in fields:
        raise ConfigError(f"fieldRef {path} is not supported")
    return str(fields[path])


def _all_from(source: Object, lookup: Lookup) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    for field, plural, kind in (
        ("configMapRef", "configmaps", "configmap"),
        ("secretRef", "secrets", "secret"),
    ):
        reference = source.get(field)
        if reference is None:
            continue
        found = lookup(plural, reference["name"])
        if found is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'{kind} "{reference["name"]}" not found')
        return {prefix + key: value for key, value in texts(found).items()}
    return {}


def _value_from(
    source: Object, container: Object, pod: Object, lookup: Lookup, allocatable: Mapping[str, str]
) -> str | None:
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return resource_value(reference, container, pod, allocatable)
    for field, plural, kind in (
        ("configMapKeyRef", "configmaps", "configmap"),
        ("secretKeyRef", "secrets", "secret"),
    ):
        if reference := source.get(field):
            return _key_of(reference, lookup(plural, reference["name"]), kind)
    raise ConfigError(f"valueFrom {', '.join(source)} is not supported")


def _key_of(reference: Object, found: Object | None, kind: str) -> str | None:
    name, key = reference["name"], reference["key"]
    data = texts(found) if found is not None else {}
    if key in data:
        return data[key]
    if reference.get("optional"):
        return None
    if found is None:
        raise ConfigError(f'{kind} "{name}" not found')
    raise ConfigError(f"couldn't find key {key} in {'ConfigMap' if kind == 'configmap' else 'Secret'} {name}")


def texts(found: Object) -> dict[str, str]:
    """Return the data of a config map or a secret as text."""
    return {key: value.decode("utf-8", "replace") for key, value in contents(found).items()}


def contents(found: Object) -> dict[str, bytes]:
    """Return the data of a config map or a secret as bytes."""
    import base64

    is_secret = found.get("kind") == "Secret" or "type" in found
    data = {}
    for key, value in (found.get("data") or {}).items():
        data[key] = base64.b64decode(value) if is_secret else value.encode()
    for key, value in (found.get("binaryData") or {}).items():
        data[key] = base64.b64decode(value)
    return data


def resource_value(reference: Object, container: Object, pod: Object, allocatable: Mapping[str, str]) -> str:
    """Return what a resourceFieldRef stands for: whole units of its divisor, rounded up."""
    wanted = reference.get("containerName") or container["name"]
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    of = next((c for c in every if c["name"] == wanted), container)
    which, _, name = reference["resource"].partition(".")
    resources = of.get("resources") or {}
    value = (resources.get(which) or {}).get(name)
    if value is None:
        value = allocatable.get(name, "0") if which == "limits" else "0"
    divisor = amount(reference.get("divisor") or "1") or amount("1")
    return str(int((amount(value) / divisor).to_integral_value(ROUND_CEILING)))
