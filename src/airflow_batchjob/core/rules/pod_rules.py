"""What Kubernetes would refuse about the pod template, as far as an author plausibly causes it.

The rest of a pod's many rules is left to the server, whose answer names the field.

Source: kubernetes/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.rules.resource_rules import resource_problems

POD_PATH = "spec.template.spec"

_RESTARTS = ("Never", "OnFailure")
_PULLS = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_LONGEST_LABEL = 63
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def pod_problems(pod: Mapping[str, Any], *, resources_known: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with a pod template's spec.

    Args:
        pod: In the right shape.
        resources_known: False where a machine was asked for and could not be shared out; requests
            and limits are not judged then.
    """
    yield from _restart_problems(pod)
    containers, inits = pod.get("containers") or [], pod.get("initContainers") or []
    if not containers:
        yield Problem(f"{POD_PATH}.containers", None, "there is no container", "Give image=, or a container")
    names = Counter(
        str(container.get("name")) for container in [*containers, *inits] if container.get("name")
    )
    volumes = Counter(str(volume.get("name")) for volume in pod.get("volumes") or ())
    for group, members in (("containers", containers), ("initContainers", inits)):
        for at, container in enumerate(members):
            path = f"{POD_PATH}.{group}[{at}]"
            yield from _container_problems(container, path, names)
            yield from _mount_problems(container, path, volumes)
            if resources_known:
                yield from resource_problems(container, path)
    for name, count in volumes.items():
        if count > 1:
            yield Problem(f"{POD_PATH}.volumes", name, f"{count} volumes have this name", "Give each its own")
    yield from selector_problems(pod.get("nodeSelector") or {}, f"{POD_PATH}.nodeSelector")
    for at, toleration in enumerate(pod.get("tolerations") or ()):
        yield from _toleration_problems(toleration, f"{POD_PATH}.tolerations[{at}]")
    account = pod.get("serviceAccountName")
    if account is not None and not (isinstance(account, str) and _DNS_SUBDOMAIN.fullmatch(account)):
        mend = "Use small letters, digits, '-' and '.'"
        yield Problem(f"{POD_PATH}.serviceAccountName", account, "not the name of a service account", mend)


def metadata_problems(metadata: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what is wrong with labels and annotations."""
    yield from selector_problems(metadata.get("labels") or {}, f"{path}.labels")
    for key, value in (metadata.get("annotations") or {}).items():
        yield from _key_problems(f"{path}.annotations", str(key))
        if not isinstance(value, str):
            yield Problem(
                f"{path}.annotations[{key!r}]", type(value).__name__, "not text", "Write it as text"
            )


def selector_problems(labels: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what is wrong with labels, or a selection by them."""
    for key, value in labels.items():
        yield from _key_problems(path, str(key))
        field = f"{path}[{key!r}]"
        if not isinstance(value, str):
            yield Problem(field, type(value).__name__, "not text", "Write it as text")
        elif value and (len(value) > _LONGEST_LABEL or not _LABEL_NAME.fullmatch(value)):
            mend = f"Use at most {_LONGEST_LABEL} letters, digits, '-', '_' and '.', or an annotation"
            yield Problem(field, value, "not a label's value", mend)


def namespace_problems(field: str, namespace: Any) -> Iterator[Problem]:
    """Yield what is wrong with the name of a namespace."""
    if not (
        isinstance(namespace, str) and len(namespace) <= _LONGEST_LABEL and _DNS_LABEL.fullmatch(namespace)
    ):
        yield Problem(field, namespace, "not the name of a namespace", "Use small letters, digits and '-'")


def _restart_problems(pod: Mapping[str, Any]) -> Iterator[Problem]:
    policy = pod.get("restartPolicy")
    if policy in _RESTARTS:
        return
    field = f"{POD_PATH}.restartPolicy"
    if policy is None:
        yield Problem(field, None, "missing, and a Job's pods can't be restarted Always", "Write Never")
    else:
        yield Problem(field, policy, "not possible in a Job", "Write Never, or OnFailure to restart in place")


def _container_problems(container: Mapping[str, Any], path: str, names: Counter[str]) -> Iterator[Problem]:
    name, image, pull = container.get("name"), container.get("image"), container.get("imagePullPolicy")
    if not name:
        yield Problem(f"{path}.name", name, "missing", "Give the container a name")
    elif not isinstance(name, str) or len(name) > _LONGEST_LABEL or not _DNS_LABEL.fullmatch(name):
        yield Problem(f"{path}.name", name, "not a container's name", "Use small letters, digits and '-'")
    elif names[name] > 1:
        why = f"{names[name]} containers have this name"
        yield Problem(f"{path}.name", name, why, "Give each its own")
    if not image:
        yield Problem(
            f"{path}.image", image, f"container {name!r} has no image", "Give one, here or as image="
        )
    elif not isinstance(image, str) or image != image.strip():
        yield Problem(f"{path}.image", image, "not an image: it has blanks around it", "Take them away")
    if pull is not None and pull not in _PULLS:
        yield Problem(
            f"{path}.imagePullPolicy", pull, "there is no such choice", f"Write one of {', '.join(_PULLS)}"
        )
    for field in ("command", "args"):
        yield from (
            Problem(f"{path}.{field}[{at}]", _kind(word), "not text", "Write it as text")
            for at, word in enumerate(container.get(field) or ())
            if not isinstance(word, str)
        )
    for at, variable in enumerate(container.get("env") or ()):
        yield from _env_problems(variable, f"{path}.env[{at}]")


def _env_problems(variable: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name, value, source = variable.get("name"), variable.get("value"), variable.get("valueFrom")
    if not isinstance(name, str) or not name or "=" in name or not name.isprintable():
        yield Problem(f"{path}.name", name, "not the name of an environment variable", "Write e.g. DATA_DIR")
    # Values may be secrets, so they are never shown.
    if value is not None and not isinstance(value, str):
        yield Problem(f"{path}.value", _kind(value), f"the value of {name} is not text", "Write it as text")
    if value and source is not None:
        yield Problem(path, name, "it has both value and valueFrom", "Give one of them")


def _mount_problems(container: Mapping[str, Any], path: str, volumes: Counter[str]) -> Iterator[Problem]:
    paths: set[str] = set()
    for at, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}.volumeMounts[{at}]", mount.get("name"), mount.get("mountPath")
        if str(name) not in volumes:
            known = ", ".join(volumes) or "none"
            mend = f"Add the volume, or use a known one ({known})"
            yield Problem(f"{where}.name", name, "there is no such volume", mend)
        if not target:
            yield Problem(f"{where}.mountPath", target, "missing", "Give the path to mount it at")
        elif str(target) in paths:
            yield Problem(
                f"{where}.mountPath", target, "something is mounted there already", "Use another path"
            )
        paths.add(str(target))


def _toleration_problems(toleration: Mapping[str, Any], path: str) -> Iterator[Problem]:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or None
    if operator not in _OPERATORS:
        yield Problem(f"{path}.operator", operator, "there is no such choice", "Write Equal or Exists")
    if operator == "Exists" and toleration.get("value"):
        why = "Exists tolerates every value"
        yield Problem(f"{path}.value", toleration["value"], why, "Take it out, or write operator: Equal")
    if operator != "Exists" and not toleration.get("key"):
        yield Problem(
            f"{path}.key", None, "missing", "Give the taint's key, or operator: Exists for all taints"
        )
    if effect is not None and effect not in _EFFECTS:
        yield Problem(
            f"{path}.effect", effect, "there is no such choice", f"Write one of {', '.join(_EFFECTS)}"
        )


def _key_problems(path: str, key: str) -> Iterator[Problem]:
    domain, slash, name = key.rpartition("/")
    if (
        (slash and not _DNS_SUBDOMAIN.fullmatch(domain))
        or len(name) > _LONGEST_LABEL
        or not _LABEL_NAME.fullmatch(name)
    ):
        mend = (
            "Write a name of letters, digits, '-', '_' and '.', with a domain and '/' before it if you like"
        )
        yield Problem(f"{path}[{key!r}]", key, "not a key", mend)


def _kind(value: Any) -> Any:
    # The text of a template is shown, so that it can be told from a value that is known.
    return value if isinstance(value, str) else type(value).__name__
