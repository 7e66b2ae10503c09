"""The rules of each kind: what is filled in, what is refused, at creation, change and status write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_batchjob.local.api import defaults
from airflow_batchjob.local.api.job_change_rules import job_change_problems
from airflow_batchjob.local.api.job_labels import with_generated_selector
from airflow_batchjob.local.api.job_rules import job_problems, job_warnings
from airflow_batchjob.local.api.job_status_rules import job_status_problems
from airflow_batchjob.local.api.local_rules import local_warnings
from airflow_batchjob.local.api.names import metadata_problems
from airflow_batchjob.local.api.pod_rules import pod_spec_problems
from airflow_batchjob.local.api.resource_rules import fractional_byte_warnings
from airflow_batchjob.local.api.status import Problems, forbidden, invalid, required
from airflow_batchjob.local.store import Object

_POD_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


def _as_it_is(obj: Object) -> Object:
    return obj


def _metadata_only(obj: Object) -> Problems:
    return metadata_problems(obj["metadata"])


def _nothing(new: Object, old: Object) -> Problems:  # noqa: ARG001  one shape for all kinds
    return []


def _no_warnings(obj: Object) -> list[str]:  # noqa: ARG001  one shape for all kinds
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one kind asks for. Objects go in whole and come out whole; nothing is changed in place."""

    with_defaults: Callable[[Object], Object] = _as_it_is
    prepared: Callable[[Object], Object] = _as_it_is  # when it is created, after it has name and uid
    create_problems: Callable[[Object], Problems] = _metadata_only
    change_problems: Callable[[Object, Object], Problems] = _nothing
    status_problems: Callable[[Object, Object], Problems] = _nothing
    warnings: Callable[[Object], list[str]] = _no_warnings
    pod_spec: tuple[str, ...] = ()  # where an object of this kind has one
    has_generation: bool = False
    has_status: bool = False  # of its own path; then the main path ignores it


def _new_job(job: Object) -> Object:
    return {**with_generated_selector(job), "status": {}}


def _job_warnings(job: Object) -> list[str]:
    path = "spec.template.spec"
    return [*job_warnings(job), *_pod_spec_warnings(job["spec"]["template"]["spec"], path)]


def _pod_spec_warnings(spec: Object, path: str) -> list[str]:
    warnings = local_warnings(spec, path)
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group, ())):
            where = f"{path}.{group}[{number}].resources"
            warnings += fractional_byte_warnings(container.get("resources") or {}, where)
    return warnings


def _new_pod_problems(pod: Object) -> Problems:
    return metadata_problems(pod["metadata"]) + pod_spec_problems(pod["spec"], "spec")


def _pod_warnings(pod: Object) -> list[str]:
    return _pod_spec_warnings(pod["spec"], "spec")


def _pod_change_problems(new: Object, old: Object) -> Problems:
    allowed = {**old["spec"]}
    for name in _POD_MAY_CHANGE:
        allowed.pop(name, None)
        if name in new["spec"]:
            allowed[name] = new["spec"][name]
    problems: Problems = []
    gone = [
        one for one in old["spec"].get("tolerations", ()) if one not in new["spec"].get("tolerations", ())
    ]
    if gone:
        problems.append(
            forbidden(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    if new["spec"] != allowed:
        names = ", ".join(f"`spec.{name}`" for name in _POD_MAY_CHANGE)
        problems.append(forbidden("spec", f"pod updates may not change fields other than {names}"))
    return problems


def _service_problems(service: Object) -> Problems:
    problems = metadata_problems(service["metadata"], dns_label=True)
    spec = service["spec"]
    headless = spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
        problems.append(required("spec.ports"))
    if not headless:
        words = 'no network here: only headless services, which give pods their host names; write "None"'
        problems.append(invalid("spec.clusterIP", spec.get("clusterIP", ""), words))
    return problems


def _new_namespace(namespace: Object) -> Object:
    name = namespace["metadata"]["name"]
    labels = {**(namespace["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    metadata = {**namespace["metadata"], "labels": labels}
    return {**namespace, "metadata": metadata, "spec": {}, "status": {"phase": "Active"}}


def _namespace_problems(namespace: Object) -> Problems:
    return metadata_problems(namespace["metadata"], dns_label=True)


def _secret_change_problems(new: Object, old: Object) -> Problems:
    problems = _frozen_data_problems(new, old)
    if new.get("type") != old.get("type"):
        problems.append(invalid("type", new.get("type"), "field is immutable"))
    return problems


def _frozen_data_problems(new: Object, old: Object) -> Problems:
    if not old.get("immutable"):
        return []
    words = "field is immutable when `immutable` is set"
    names = ("data", "binaryData", "immutable")
    return [forbidden(name, words) for name in names if new.get(name) != old.get(name)]


_DEFAULT = Rules()

_RULES: Mapping[str, Rules] = {
    "jobs": Rules(
        with_defaults=defaults.with_job_defaults,
        prepared=_new_job,
        create_problems=job_problems,
        change_problems=job_change_problems,
        status_problems=job_status_problems,
        warnings=_job_warnings,
        pod_spec=("spec", "template", "spec"),
        has_generation=True,
        has_status=True,
    ),
    "pods": Rules(
        with_defaults=_as_it_is,
        prepared=defaults.with_pod_defaults,
        create_problems=_new_pod_problems,
        change_problems=_pod_change_problems,
        warnings=_pod_warnings,
        pod_spec=("spec",),
        has_generation=True,
        has_status=True,
    ),
    "nodes": Rules(has_status=True),
    "namespaces": Rules(prepared=_new_namespace, create_problems=_namespace_problems, has_status=True),
    "services": Rules(
        with_defaults=defaults.with_service_defaults, create_problems=_service_problems, has_status=True
    ),
    "secrets": Rules(with_defaults=defaults.with_secret_defaults, change_problems=_secret_change_problems),
    "configmaps": Rules(change_problems=_frozen_data_problems),
}


def rules_of(plural: str) -> Rules:
    """Return the rules of a kind."""
    return _RULES.get(plural, _DEFAULT)
