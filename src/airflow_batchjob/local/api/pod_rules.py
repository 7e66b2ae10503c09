"""What Kubernetes refuses in a pod, or in the template of one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_batchjob.local.api.names import (
    dns_label_faults,
    dns_subdomain_faults,
    label_problems,
    label_value_faults,
    qualified_name_faults,
)
from airflow_batchjob.local.api.resource_rules import resource_problems
from airflow_batchjob.local.api.status import (
    OMITTED,
    Cause,
    Problem,
    Problems,
    duplicate,
    invalid,
    not_supported,
    required,
)
from airflow_batchjob.local.store import Object

_RESTART = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ENV_NAME = re.compile(r"[ -<>-~]+")


def template_problems(template: Object, path: str) -> Problems:
    """Return what is wrong with a pod template at `path`."""
    metadata = template.get("metadata") or {}
    return [
        *label_problems(metadata.get("labels") or {}, f"{path}.labels"),
        *pod_spec_problems(template["spec"], f"{path}.spec"),
    ]


def pod_spec_problems(spec: Object, path: str) -> Problems:
    """Return what is wrong with a pod spec at `path`, each with the field's own path."""
    volumes = [volume.get("name", "") for volume in spec.get("volumes", ())]
    problems = [*_volume_problems(spec, path)]
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group, ())):
            where = f"{path}.{group}[{number}]"
            problems += _container_problems(container, where, volumes)
            if container.get("name") in seen:
                problems.append(duplicate(f"{where}.name", container["name"]))
            seen.add(container.get("name", ""))
    if spec["restartPolicy"] not in _RESTART:
        problems.append(not_supported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART))
    return [*problems, *_number_problems(spec, path), *_placement_problems(spec, path)]


def _volume_problems(spec: Object, path: str) -> Iterable[Problem]:
    seen: set[str] = set()
    for number, volume in enumerate(spec.get("volumes", ())):
        field = f"{path}.volumes[{number}].name"
        name = volume.get("name", "")
        if not name:
            yield required(field)
        for fault in dns_label_faults(name) if name else ():
            yield invalid(field, name, fault)
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)


def _container_problems(container: Object, path: str, volumes: list[str]) -> Problems:
    problems: Problems = []
    name = container.get("name", "")
    if not name:
        problems.append(required(f"{path}.name"))
    problems += [invalid(f"{path}.name", name, fault) for fault in (dns_label_faults(name) if name else ())]
    image = container.get("image", "")
    if not image:
        problems.append(required(f"{path}.image"))
    elif image != image.strip():
        problems.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for number, variable in enumerate(container.get("env", ())):
        problems += _env_problems(variable, f"{path}.env[{number}]")
    mounts: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{path}.volumeMounts[{number}]"
        problems += _mount_problems(mount, where, volumes)
        if mount.get("mountPath") in mounts:
            problems.append(invalid(f"{where}.mountPath", mount["mountPath"], "must be unique"))
        mounts.add(mount.get("mountPath", ""))
    return [*problems, *resource_problems(container.get("resources") or {}, f"{path}.resources")]


def _env_problems(variable: Object, path: str) -> Problems:
    name = variable.get("name", "")
    if not name:
        return [required(f"{path}.name")]
    problems: Problems = []
    if not _ENV_NAME.fullmatch(name):
        problems.append(
            invalid(
                f"{path}.name",
                name,
                "a valid environment variable name has printable ASCII characters except '='",
            )
        )
    source = variable.get("valueFrom")
    if source is not None and len(source) != 1:
        words = (
            "may not have more than one field specified at a time"
            if source
            else "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        )
        problems.append(invalid(f"{path}.valueFrom", "" if not source else OMITTED, words))
    if source and variable.get("value"):
        problems.append(invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty"))
    return problems


def _mount_problems(mount: Object, path: str, volumes: list[str]) -> Problems:
    problems: Problems = []
    name = mount.get("name", "")
    if not name:
        problems.append(required(f"{path}.name"))
    elif name not in volumes:
        problems.append(Problem(f"{path}.name", Cause.NOT_FOUND, name, ""))
    if not mount.get("mountPath"):
        problems.append(required(f"{path}.mountPath"))
    return problems


def _number_problems(spec: Object, path: str) -> Iterable[Problem]:
    grace = spec["terminationGracePeriodSeconds"]
    if grace < 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"
        )


def _placement_problems(spec: Object, path: str) -> Iterable[Problem]:
    for name, faults in (("hostname", dns_label_faults), ("subdomain", dns_label_faults)):
        value = spec.get(name, "")
        for fault in faults(value) if value else ():
            yield invalid(f"{path}.{name}", value, fault)
    account = spec.get("serviceAccountName", "")
    for fault in dns_subdomain_faults(account) if account else ():
        yield invalid(f"{path}.serviceAccountName", account, fault)
    for key, value in (spec.get("nodeSelector") or {}).items():
        for fault in qualified_name_faults(key):
            yield invalid(f"{path}.nodeSelector", key, fault)
        for fault in label_value_faults(value):
            yield invalid(f"{path}.nodeSelector", value, fault)
    for number, toleration in enumerate(spec.get("tolerations", ())):
        yield from _toleration_problems(toleration, f"{path}.tolerations[{number}]")


def _toleration_problems(toleration: Object, path: str) -> Iterable[Problem]:
    operator, key = toleration.get("operator", "Equal"), toleration.get("key", "")
    for fault in qualified_name_faults(key) if key else ():
        yield invalid(f"{path}.key", key, fault)
    if operator not in ("Equal", "Exists"):
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if not key and operator != "Exists":
        yield invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator == "Exists" and toleration.get("value"):
        yield invalid(
            f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
        )
    effect = toleration.get("effect", "")
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
