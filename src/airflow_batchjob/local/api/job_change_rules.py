"""What Kubernetes refuses in a change of a Job: what is immutable, and when the template is not."""

from __future__ import annotations

from airflow_batchjob.local.api.job_rules import job_spec_problems, name_problems
from airflow_batchjob.local.api.status import Problems, invalid
from airflow_batchjob.local.store import Object

_IMMUTABLE_BEFORE_TEMPLATE = ("selector",)
_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")
_WORDS = "field is immutable"


def job_change_problems(new: Object, old: Object) -> Problems:
    """Return everything that is wrong with changing `old` into `new`; both have their defaults."""
    spec, was = new["spec"], old["spec"]
    problems = job_spec_problems(spec)
    problems += _completions_problems(spec, was)
    problems += _unchanged(spec, was, _IMMUTABLE_BEFORE_TEMPLATE)
    problems += _template_problems(new, old)
    problems += _unchanged(spec, was, _IMMUTABLE)
    return [*problems, *name_problems(new)]


def _unchanged(spec: Object, was: Object, names: tuple[str, ...]) -> Problems:
    return [
        invalid(f"spec.{name}", spec.get(name), _WORDS) for name in names if spec.get(name) != was.get(name)
    ]


def _completions_problems(spec: Object, was: Object) -> Problems:
    completions = spec.get("completions")
    if completions == was.get("completions"):
        return []
    if spec["completionMode"] != "Indexed":
        return [invalid("spec.completions", completions, _WORDS)]
    if completions is None or completions == spec["parallelism"]:
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def template_is_open(job: Object) -> bool:
    """Tell whether placement and resources of a Job's pods may be changed: suspended, and at rest."""
    status = job.get("status") or {}
    suspended = any(
        condition["type"] == "Suspended" and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
    at_rest = "startTime" not in status or suspended
    return bool(job["spec"].get("suspend")) and at_rest and not status.get("active")


def _template_problems(new: Object, old: Object) -> Problems:
    template, was = new["spec"]["template"], old["spec"]["template"]
    if not template_is_open(old):
        return [] if template == was else [invalid("spec.template", template, _WORDS)]
    allowed = _with_containers_resources(_with_scheduling(was["spec"], template["spec"]), template["spec"])
    return [] if template["spec"] == allowed else [invalid("spec.template.spec", template["spec"], _WORDS)]


def _with_scheduling(was: Object, spec: Object) -> Object:
    """Return the old pod spec with the new placement, as far as that may change."""
    result = {name: value for name, value in was.items() if name not in _SCHEDULING}
    result |= {name: spec[name] for name in _SCHEDULING if name in spec}
    affinity = {name: value for name, value in (was.get("affinity") or {}).items() if name != "nodeAffinity"}
    if "nodeAffinity" in (spec.get("affinity") or {}):
        affinity["nodeAffinity"] = spec["affinity"]["nodeAffinity"]
    result.pop("affinity", None)
    # An affinity that says nothing and none at all are the same.
    return {**result, "affinity": affinity} if affinity or spec.get("affinity") == {} else result


def _with_containers_resources(was: Object, spec: Object) -> Object:
    result = dict(was)
    for group in ("containers", "initContainers"):
        old, new = was.get(group, []), spec.get(group, [])
        if old and len(old) == len(new):
            result[group] = [
                {**mine, "resources": theirs.get("resources", {})}
                if mine["name"] == theirs.get("name")
                else mine
                for mine, theirs in zip(old, new, strict=True)
            ]
    return result
