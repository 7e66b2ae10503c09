"""The fields of a Job: which there are, what shape they have, and what a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from airflow_batchjob.core.errors import Problem


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Source: batch/v1 JobSpec, core/v1 PodSpec, Container and ObjectMeta of Kubernetes 1.37.
JOB = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
JOB_SPEC = _names(
    "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy "
    "manualSelector maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy scheduling selector "
    "successPolicy suspend template ttlSecondsAfterFinished"
)
TEMPLATE = frozenset({"metadata", "spec"})
METADATA = _names(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName "
    "generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
POD_SPEC = _names(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy "
    "enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname "
    "hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy "
    "priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName "
    "schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName "
    "setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations "
    "topologySpreadConstraints volumes workloadRef"
)
CONTAINER = _names(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe "
    "resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce "
    "terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)

# A mapping must be a mapping, a list a list; a list with an entry says what its items are.
_CONTAINER_SHAPE: Mapping[str, Any] = {
    "args": [],
    "command": [],
    "env": [{"valueFrom": {}}],
    "envFrom": [{}],
    "ports": [{}],
    "resources": {"limits": {}, "requests": {}},
    "securityContext": {},
    "volumeMounts": [{}],
}
POD_SHAPE: Mapping[str, Any] = {
    "affinity": {},
    "containers": [_CONTAINER_SHAPE],
    "imagePullSecrets": [{}],
    "initContainers": [_CONTAINER_SHAPE],
    "nodeSelector": {},
    "securityContext": {},
    "tolerations": [{}],
    "volumes": [{}],
}
_METADATA_SHAPE: Mapping[str, Any] = {"annotations": {}, "labels": {}}
JOB_SHAPE: Mapping[str, Any] = {
    "metadata": _METADATA_SHAPE,
    "spec": {
        "podFailurePolicy": {"rules": [{"onExitCodes": {"values": []}, "onPodConditions": [{}]}]},
        "successPolicy": {"rules": [{}]},
        "template": {"metadata": _METADATA_SHAPE, "spec": POD_SHAPE},
    },
}

# At these levels Kubernetes gains fields with each version: only what is nearly a known one is refused.
_NEARLY = 0.88
_FAIRLY = 0.6


def shape_problems(tree: Any, shape: Any, path: str) -> Iterator[Problem]:
    """Name what should be a mapping or a list and is not; null is absent.

    Args:
        tree: Part of a Job.
        shape: `JOB_SHAPE` or a part of it.
        path: Where it stands, as its author sees it.
    """
    if tree is None:
        return
    if isinstance(shape, Mapping):
        if not isinstance(tree, Mapping):
            yield Problem(path, _short(tree), "not a mapping", "Write fields below it, indented")
            return
        for name, inner in shape.items():
            yield from shape_problems(tree.get(name), inner, f"{path}.{name}" if path else name)
    elif not isinstance(tree, list):
        yield Problem(path, _short(tree), "not a list", 'Write its items below it, each after a "-"')
    elif shape:
        for at, item in enumerate(tree):
            where = f"{path}[{at}]"
            if item is None:
                yield Problem(where, item, "it is empty", "Fill it or take it out")
            yield from shape_problems(item, shape[0], where)


def unknown_fields(job: Mapping[str, Any]) -> Iterator[Problem]:
    """Name fields that no Job has, with the one that was meant. Takes a Job in the right shape."""
    yield from _unknown(job, JOB, "", strict=True)
    yield from _unknown(job.get("metadata"), METADATA, "metadata", strict=True)
    spec = job.get("spec") or {}
    yield from _unknown(spec, JOB_SPEC, "spec", strict=True)
    template = spec.get("template") or {}
    yield from _unknown(template, TEMPLATE, "spec.template", strict=True)
    yield from _unknown(template.get("metadata"), METADATA, "spec.template.metadata", strict=True)
    yield from unknown_pod_fields(template.get("spec") or {}, "spec.template.spec")


def unknown_pod_fields(pod: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Name fields of a (partial) pod spec that are nearly a known one."""
    yield from _unknown(pod, POD_SPEC, path, strict=False)
    for group in ("containers", "initContainers"):
        for at, container in enumerate(pod.get(group) or ()):
            yield from _unknown(container, CONTAINER, f"{path}.{group}[{at}]", strict=False)


def nearest(name: str, known: frozenset[str], *, cutoff: float = _FAIRLY) -> str | None:
    """Return the name that was probably meant."""
    plain = {_plain(other): other for other in sorted(known)}
    found = get_close_matches(_plain(name), plain, n=1, cutoff=cutoff)
    return plain[found[0]] if found else None


def _unknown(tree: Any, known: frozenset[str], path: str, *, strict: bool) -> Iterator[Problem]:
    for name, value in (tree or {}).items():
        if name in known:
            continue
        where = f"{path}.{name}" if path else str(name)
        meant = nearest(str(name), known, cutoff=_FAIRLY if strict else _NEARLY)
        if elsewhere := _elsewhere(str(name), known):
            yield Problem(where, _short(value), "it does not belong here", f"Put it into {elsewhere}")
        elif meant:
            yield Problem(where, _short(value), "there is no such field", f"Did you mean {meant}")
        elif strict:
            mend = f"Take it out, or use one of {', '.join(sorted(known))}"
            yield Problem(where, _short(value), "there is no such field", mend)


def _elsewhere(name: str, known: frozenset[str]) -> str | None:
    if known == JOB and name in JOB_SPEC | METADATA:
        return "spec" if name in JOB_SPEC else "metadata"
    if known in (JOB_SPEC, TEMPLATE) and name in POD_SPEC | CONTAINER:
        return "spec.template.spec" if name in POD_SPEC else "a container"
    if known in (POD_SPEC, CONTAINER) and name in JOB_SPEC - {"template"}:
        return "spec"
    if known == POD_SPEC and name in CONTAINER:
        return "a container"
    if known == CONTAINER and name in POD_SPEC:
        return "spec.template.spec"
    return None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _short(value: Any) -> Any:
    if isinstance(value, Mapping | list):
        return f"({len(value)} entries)"
    return value if not isinstance(value, str) or len(value) <= 80 else value[:79] + "…"
