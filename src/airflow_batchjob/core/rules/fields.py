"""The fields of a Job: which there are, what shape they have, and what a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.wording import counted


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

# A mapping must be a mapping, a list a list; a list with an entry says what its items are, None that
# one value stands there.
RESOURCES_SHAPE: Mapping[str, Any] = {"limits": {}, "requests": {}}
_MAY_HOLD_SECRETS = frozenset({"env", "args", "command"})

_CONTAINER_SHAPE: Mapping[str, Any] = {
    "args": [None],
    "command": [None],
    "env": [{"name": None, "valueFrom": {}}],
    "envFrom": [{}],
    "image": None,
    "imagePullPolicy": None,
    "name": None,
    "ports": [{}],
    "resources": RESOURCES_SHAPE,
    "securityContext": {},
    "volumeMounts": [{"mountPath": None, "name": None}],
}
_TOLERATION_SHAPE: Mapping[str, Any] = dict.fromkeys(("effect", "key", "operator", "value"))
POD_SHAPE: Mapping[str, Any] = {
    "affinity": {},
    "containers": [_CONTAINER_SHAPE],
    "imagePullSecrets": [{}],
    "initContainers": [_CONTAINER_SHAPE],
    "nodeSelector": {},
    "restartPolicy": None,
    "securityContext": {},
    "tolerations": [_TOLERATION_SHAPE],
    "volumes": [{"name": None}],
}
LIST_SHAPES: Mapping[str, Any] = {"env_from": [{}], "tolerations": [_TOLERATION_SHAPE]}
_METADATA_SHAPE: Mapping[str, Any] = {"annotations": {}, "labels": {}, "name": None, "namespace": None}
JOB_SHAPE: Mapping[str, Any] = {
    "metadata": _METADATA_SHAPE,
    "spec": {
        "completionMode": None,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": None,
                    "onExitCodes": {"containerName": None, "operator": None, "values": [None]},
                    "onPodConditions": [{"status": None, "type": None}],
                }
            ]
        },
        "podReplacementPolicy": None,
        "successPolicy": {"rules": [{"succeededCount": None, "succeededIndexes": None}]},
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
    if shape is None:
        if isinstance(tree, Mapping | list | tuple):
            yield Problem(path, _short(tree), "not a single value", "Write one value")
    elif isinstance(shape, Mapping):
        yield from _mapping_problems(tree, shape, path)
    else:
        yield from _list_problems(tree, shape, path)


def _mapping_problems(tree: Any, shape: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not isinstance(tree, Mapping):
        yield Problem(path, _short(tree), "not a mapping", "Write fields below it, indented")
        return
    for name, inner in shape.items():
        yield from shape_problems(tree.get(name), inner, f"{path}.{name}" if path else name)


def _list_problems(tree: Any, shape: Sequence[Any], path: str) -> Iterator[Problem]:
    if not isinstance(tree, list | tuple):
        hide = path.rpartition(".")[2] in _MAY_HOLD_SECRETS
        mend = 'Write its items below it, each after a "-"'
        yield Problem(path, _short(tree), "not a list", mend, hide=hide and isinstance(tree, str))
        return
    for at, item in enumerate(tree if shape else ()):
        where = f"{path}[{at}]"
        if item is None and shape[0] is not None:
            yield Problem(where, item, "it is empty", "Fill it or take it out")
        yield from shape_problems(item, shape[0], where)


def key_problems(tree: Any, path: str) -> Iterator[Problem]:
    """Name keys that are no text: YAML reads 8080, yes and null as something else."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            where = f"{path}.{key}" if path else str(key)
            if not isinstance(key, str):
                yield Problem(where, key, f"the key is read as {type(key).__name__}, not text", "Quote it")
            yield from key_problems(value, where)
    elif isinstance(tree, list | tuple):
        for at, item in enumerate(tree):
            yield from key_problems(item, f"{path}[{at}]")


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
    if isinstance(value, Mapping | list | tuple):
        return f"({counted(len(value), 'entry', 'entries')})"
    return value if not isinstance(value, str) or len(value) <= 80 else value[:79] + "…"
