"""The pod template: a partial pod, then what acts on one container, then the machine's shares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.draft import Draft
from airflow_batchjob.core.request.merge import merge_env, merge_pod
from airflow_batchjob.core.request.parameters import machine_of
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.request.typed import as_text, settle
from airflow_batchjob.core.rules.pod_rules import POD_PATH
from airflow_batchjob.core.sharing.allocation import allocate

MAIN = "main"

_ON_CONTAINER = ("image", "command", "args", "env", "env_from", "container_resources")


def build_pod(draft: Draft, asked: JobSpec) -> str:
    """Put the pod's parameters into `draft`.

    Returns:
        The name of the container that parameters act on; "" where there is none.
    """
    is_ours = asked.image is not None or (draft.from_parameters and not (asked.pod or {}).get("containers"))
    if is_ours and not draft.pod.get("containers"):
        draft.pod["containers"] = [{"name": asked.container or MAIN}]
    if asked.pod:
        with draft.collecting():
            draft.template["spec"] = settle(merge_pod(draft.pod, asked.pod))
        named = [key for key in asked.pod if key not in ("containers", "initContainers")]
        draft.names |= {f"{POD_PATH}.{key}": f"pod.{key}" for key in named}
    if draft.from_parameters:
        draft.pod.setdefault("restartPolicy", "Never")
    _set_placement(draft, asked)
    at = _chosen(draft, asked)
    if at is None:
        return ""
    containers = draft.pod["containers"]
    draft.pod["containers"] = [
        *containers[:at],
        _changed(draft, containers[at], asked),
        *containers[at + 1 :],
    ]
    path = f"{POD_PATH}.containers[{at}]"
    draft.names |= {f"{path}.{field}": field for field in ("command", "args") if getattr(asked, field)}
    if asked.container_resources:
        draft.names[f"{path}.resources"] = "container_resources"
    if is_ours:
        draft.names[f"{path}.image"] = "image"
    _share_machine(draft, asked)
    return str(draft.pod["containers"][at].get("name") or "")


def _set_placement(draft: Draft, asked: JobSpec) -> None:
    pod = draft.pod
    if asked.service_account_name is not None:
        # The old spelling of the same field, which exports carry along, would win.
        pod.pop("serviceAccount", None)
        pod["serviceAccountName"] = asked.service_account_name
        draft.names[f"{POD_PATH}.serviceAccountName"] = "service_account_name"
    if asked.node_selector:
        own = pod.get("nodeSelector") or {}
        pod["nodeSelector"] = {**own, **{key: as_text(value) for key, value in asked.node_selector.items()}}
        draft.names |= {
            f"{POD_PATH}.nodeSelector[{key!r}]": f"node_selector[{key!r}]" for key in asked.node_selector
        }
    if asked.tolerations:
        own_tolerations = pod.get("tolerations") or []
        pod["tolerations"] = _joined(own_tolerations, settle(list(asked.tolerations)))
    if asked.image_pull_secrets:
        named = [
            {"name": secret} if isinstance(secret, str) else secret for secret in asked.image_pull_secrets
        ]
        pod["imagePullSecrets"] = _joined(pod.get("imagePullSecrets") or [], named)


def _chosen(draft: Draft, asked: JobSpec) -> int | None:
    containers = draft.pod.get("containers") or []
    if asked.container is None:
        return 0 if containers else None
    names = [container.get("name") for container in containers]
    if asked.container in names:
        return names.index(asked.container)
    known = ", ".join(map(str, names)) or "none"
    draft.refuse("container", asked.container, "there is no such container", f"Use a known one: {known}")
    return None


def _changed(draft: Draft, container: Mapping[str, Any], asked: JobSpec) -> dict[str, Any]:
    changed = dict(container)
    if asked.image is not None:
        changed["image"] = asked.image
    if asked.command:
        changed["command"] = [as_text(word) for word in asked.command]
    if asked.args:
        changed["args"] = [as_text(word) for word in asked.args]
    if asked.env:
        env, own = _by_name(asked.env), changed.get("env") or []
        _check_removed(draft, env, {entry.get("name") for entry in own})
        with draft.collecting():  # of this alone: without the rest, more would seem to be missing
            changed["env"] = merge_env(own, env)
    if asked.env_from:
        changed["envFrom"] = _joined(changed.get("envFrom") or [], list(asked.env_from))
    if asked.container_resources:
        changed["resources"] = dict(asked.container_resources)
    return changed


def _share_machine(draft: Draft, asked: JobSpec) -> None:
    if asked.machine is None:
        return
    draft.resources_known = False
    try:
        machine = machine_of(asked)
    except SpecError:
        return  # named already, with the other parameters
    if machine is None:
        return
    with draft.collecting():
        allocation = allocate(draft.pod, machine)
        draft.template["spec"] = allocation.pod_spec
        draft.notes.extend(allocation.notes)
        draft.resources_known = True


def _by_name(env: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    """Return variables by name, whether they came as a mapping or as Kubernetes' (or a model's) list."""
    if isinstance(env, Mapping):
        return env
    return {
        entry["name"]: {"valueFrom": entry["valueFrom"]} if "valueFrom" in entry else entry.get("value", "")
        for entry in env
    }


def _check_removed(draft: Draft, env: Mapping[str, Any], own: Collection[Any]) -> None:
    absent = [name for name, value in env.items() if value is None and name not in own]
    for name in absent if draft.from_parameters else ():
        why = "None takes a variable away, and there is none of this name"
        draft.refuse(f"env[{name!r}]", None, why, 'Give text ("" for an empty one), or leave it out')
    if absent and not draft.from_parameters:
        names = ", ".join(map(str, absent))
        draft.notes.append(f"env takes away what the container does not have: {names}")


def _joined(own: Sequence[Any], added: Sequence[Any]) -> list[Any]:
    return [*own, *(item for item in added if item not in own)]
