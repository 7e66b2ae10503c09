"""What a process on this machine cannot do for a pod: said in words before it starts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]

SUPPORTED_VOLUMES = ("emptyDir", "configMap", "secret", "downwardAPI", "hostPath")
DEFAULT_MESSAGE_PATH = "/dev/termination-log"

_NO_PROBES = "the local cluster does not probe: a container is ready when it runs"
REFUSED_OF_CONTAINER: Mapping[str, str] = {
    "livenessProbe": _NO_PROBES,
    "readinessProbe": _NO_PROBES,
    "startupProbe": _NO_PROBES,
    "lifecycle": "the local cluster has no lifecycle hooks",
}
"""Fields of a container, and why one that has them is refused."""


class Refusal(NamedTuple):
    """One thing that cannot be done."""

    field: str
    """Path within the pod's spec, e.g. ``containers[0].livenessProbe``."""
    value: Any
    message: str


def refusals(spec: Object, *, private_mounts: bool) -> list[Refusal]:
    """Return everything in a pod's spec that the agent cannot do.

    Args:
        spec: The pod's, or a Job's template's, spec.
        private_mounts: Whether this system lets a process have mounts of its own.
    """
    found = list(_volumes(spec))
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            found += _container(spec, container, f"{kind}[{number}]", private_mounts=private_mounts)
    return found


def _volumes(spec: Object) -> Iterator[Refusal]:
    for number, volume in enumerate(spec.get("volumes") or ()):
        kinds = [key for key in volume if key != "name"]
        if kinds and kinds[0] not in SUPPORTED_VOLUMES:
            supported = ", ".join(SUPPORTED_VOLUMES)
            yield Refusal(
                f"volumes[{number}].{kinds[0]}",
                volume["name"],
                f"the local cluster has no volumes of this kind, only {supported}",
            )


def _container(spec: Object, container: Object, path: str, *, private_mounts: bool) -> Iterator[Refusal]:
    if not container.get("command"):
        yield Refusal(
            f"{path}.command",
            None,
            "the local cluster runs no images, so the command of one is not known: name it",
        )
    for name, why in REFUSED_OF_CONTAINER.items():
        if container.get(name):
            yield Refusal(f"{path}.{name}", name, why)
    for number, rule in enumerate(container.get("restartPolicyRules") or ()):
        if rule.get("action") != "Restart":
            where = f"{path}.restartPolicyRules[{number}].action"
            yield Refusal(where, rule.get("action"), "only Restart is possible on the local cluster")
    if not private_mounts:
        yield from _needs_mounts(spec, container, path)


def _needs_mounts(spec: Object, container: Object, path: str) -> Iterator[Refusal]:
    why = "this system does not let a process have mounts of its own, so nothing can appear at that path"
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        if not is_in_place(mount, volumes.get(mount["name"]) or {}):
            yield Refusal(f"{path}.volumeMounts[{number}].mountPath", mount["mountPath"], why)
    if uses_message_file(container):
        message_path = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
        yield Refusal(
            f"{path}.terminationMessagePath",
            message_path,
            f"{why}; terminationMessagePolicy: FallbackToLogsOnError with another text works",
        )


def is_in_place(mount: Object, volume: Object) -> bool:
    """Return whether a mount shows a folder of this machine where it is anyway."""
    host = (volume.get("hostPath") or {}).get("path")
    return (
        host is not None and host.rstrip("/") == mount["mountPath"].rstrip("/") and not mount.get("subPath")
    )


def uses_message_file(container: Object) -> bool:
    """Return whether a container names its termination message file.

    Every container has one by default, and nearly none writes to it. A private view of the file
    system for each would cost more than starting the command, so only those get it that name the
    file in command, arguments or environment, or ask for another path than the default.
    """
    path = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
    if path != DEFAULT_MESSAGE_PATH:
        return True
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    words += [entry.get("value") or "" for entry in container.get("env") or ()]
    return any(path in word for word in words)
