"""What Kubernetes would take and this cluster cannot do: refused, or said in a warning; never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_batchjob.local.agent.refusals import refusals
from airflow_batchjob.local.api.status import Problem, Problems, forbidden, required
from airflow_batchjob.local.store import Object

_NO_IMAGE = "no images here: give the container a command"
REFUSED_OF_POD: Mapping[str, str] = {
    "ephemeralContainers": "no ephemeral containers here",
    "resourceClaims": "no dynamic resource allocation here",
    "readinessGates": "no readiness gates here",
    "runtimeClassName": "no runtime classes here",
    "overhead": "no runtime overhead here",
}
"""Fields of a pod's spec, and why one that has them is refused."""
REFUSED_OF_CONTAINER: Mapping[str, str] = {
    "volumeDevices": "no block devices here",
    "securityContext.privileged": "no privileges here: processes run as the user who started the cluster",
}
"""Fields of a container, with those that are within others, and why one that has them is refused."""
WARNED_OF_POD: Mapping[str, str] = {
    "hostAliases": "is not held here: the machine's own /etc/hosts is used",
    "dnsConfig": "is not held here: the machine's own DNS is used",
    "imagePullSecrets": "is not needed here: no images are pulled",
    "securityContext": (
        "is not held here: processes run as the user who started the cluster, without isolation"
    ),
}
"""Fields of a pod's spec that are taken without effect, and what the warning says."""
WARNED_OF_CONTAINER: Mapping[str, str] = {"securityContext": WARNED_OF_POD["securityContext"]}
"""The same of a container."""


def local_problems(spec: Object, path: str, *, private_mounts: bool) -> Problems:
    """Return what this cluster refuses in a pod spec that Kubernetes would accept.

    Args:
        spec: The pod's, or a Job's template's, spec.
        path: Where it stands in its object.
        private_mounts: Whether this system lets a process have mounts of its own.
    """
    problems = [forbidden(f"{path}.{name}", why) for name, why in REFUSED_OF_POD.items() if spec.get(name)]
    for refusal in refusals(spec, private_mounts=private_mounts):
        field = f"{path}.{refusal.field}"
        without_command = refusal.field.endswith(".command") and not refusal.value
        problems.append(required(field, _NO_IMAGE) if without_command else forbidden(field, refusal.message))
    return [*problems, *_container_problems(spec, path)]


def _container_problems(spec: Object, path: str) -> list[Problem]:
    return [
        forbidden(f"{where}.{field}", why)
        for where, container in _containers(spec, path)
        for field, why in REFUSED_OF_CONTAINER.items()
        if _within(container, field)
    ]


def local_warnings(spec: Object, path: str) -> list[str]:
    """Return what is accepted at `path` though this cluster does without it."""
    warnings = [f"{path}.{name} {said}" for name, said in WARNED_OF_POD.items() if spec.get(name)]
    return warnings + [
        f"{where}.{name} {said}"
        for where, container in _containers(spec, path)
        for name, said in WARNED_OF_CONTAINER.items()
        if container.get(name)
    ]


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group, ())):
            yield f"{path}.{group}[{number}]", container


def _within(container: Object, field: str) -> Any:
    found: Any = container
    for name in field.split("."):
        found = (found or {}).get(name)
    return found
