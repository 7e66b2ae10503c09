"""What Kubernetes would take and this cluster cannot do: refused, or said in a warning; never ignored."""

from __future__ import annotations

from airflow_batchjob.local.agent.refusals import refusals
from airflow_batchjob.local.api.status import Problem, Problems, forbidden, required
from airflow_batchjob.local.store import Object

_NO_IMAGE = "no images here: give the container a command"
_REFUSED_OF_POD = {
    "ephemeralContainers": "no ephemeral containers here",
    "resourceClaims": "no dynamic resource allocation here",
    "readinessGates": "no readiness gates here",
    "runtimeClassName": "no runtime classes here",
    "overhead": "no runtime overhead here",
}
_WARNED_OF_POD = {
    "hostAliases": "is not held here: the machine's own /etc/hosts is used",
    "dnsConfig": "is not held here: the machine's own DNS is used",
    "imagePullSecrets": "is not needed here: no images are pulled",
}


def local_problems(spec: Object, path: str, *, private_mounts: bool) -> Problems:
    """Return what this cluster refuses in a pod spec that Kubernetes would accept.

    Args:
        spec: The pod's, or a Job's template's, spec.
        path: Where it stands in its object.
        private_mounts: Whether this system lets a process have mounts of its own.
    """
    problems = [forbidden(f"{path}.{name}", why) for name, why in _REFUSED_OF_POD.items() if spec.get(name)]
    for refusal in refusals(spec, private_mounts=private_mounts):
        field = f"{path}.{refusal.field}"
        without_command = refusal.field.endswith(".command") and not refusal.value
        problems.append(required(field, _NO_IMAGE) if without_command else forbidden(field, refusal.message))
    return [*problems, *_container_problems(spec, path)]


def _container_problems(spec: Object, path: str) -> list[Problem]:
    problems = []
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group, ())):
            where = f"{path}.{group}[{number}]"
            if container.get("volumeDevices"):
                problems.append(forbidden(f"{where}.volumeDevices", "no block devices here"))
            if (container.get("securityContext") or {}).get("privileged"):
                words = "no privileges here: processes run as the user who started the cluster"
                problems.append(forbidden(f"{where}.securityContext.privileged", words))
    return problems


def local_warnings(spec: Object, path: str) -> list[str]:
    """Return what is accepted at `path` though this cluster does without it."""
    warnings = [f"{path}.{name} {why}" for name, why in _WARNED_OF_POD.items() if spec.get(name)]
    contexts = {f"{path}.securityContext": spec.get("securityContext")}
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group, ())):
            contexts[f"{path}.{group}[{number}].securityContext"] = container.get("securityContext")
    held = "is not held here: processes run as the user who started the cluster, without isolation"
    return warnings + [f"{where} {held}" for where, context in contexts.items() if context]
