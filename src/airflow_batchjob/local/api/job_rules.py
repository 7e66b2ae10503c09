"""What Kubernetes refuses in a Job's spec, when it is created and at each change."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_batchjob.local.api.job_labels import generated_selector_problems
from airflow_batchjob.local.api.job_policy_rules import failure_policy_problems, success_policy_problems
from airflow_batchjob.local.api.names import dns_label_faults, dns_subdomain_faults, metadata_problems
from airflow_batchjob.local.api.pod_rules import template_problems
from airflow_batchjob.local.api.selectors import matches_label_selector
from airflow_batchjob.local.api.status import Problem, Problems, invalid, not_supported, required, too_long
from airflow_batchjob.local.store import Object

_MOST = 100_000  # of parallelism and of maxFailedIndexes; and where completions begin to be "high"
_MOST_WITH_HIGH_COMPLETIONS = 10_000
_NOT_NEGATIVE = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENT = ("Failed", "TerminatingOrFailed")


def job_problems(job: Object) -> Problems:
    """Return everything that is wrong with a Job that is to be created; defaults are filled in."""
    return [
        *metadata_problems(job["metadata"]),
        *generated_selector_problems(job),
        *job_spec_problems(job["spec"]),
        *name_problems(job),
    ]


def job_spec_problems(spec: Object) -> Problems:
    """Return what is wrong with a spec that has its defaults, whatever it was before."""
    problems: list[Problem] = [
        invalid(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in _NOT_NEGATIVE
        if spec.get(name, 0) < 0
    ]
    problems += _managed_by_problems(spec)
    problems += _index_problems(spec)
    if "podFailurePolicy" in spec:
        problems += failure_policy_problems(spec, "spec.podFailurePolicy")
    if "successPolicy" in spec:
        problems += _success_policy_problems(spec)
    problems += _replacement_problems(spec)
    problems += template_problems(spec["template"], "spec.template")
    problems += _restart_problems(spec)
    return [*problems, *_selector_problems(spec)]


def _managed_by_problems(spec: Object) -> Iterable[Problem]:
    manager = spec.get("managedBy")
    if manager is None:
        return
    prefix, slash, path = manager.partition("/")
    if (
        not slash
        or not path
        or dns_subdomain_faults(prefix)
        or not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", path)
    ):
        yield invalid("spec.managedBy", manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if len(manager) > 63:
        yield too_long("spec.managedBy", 63)


def _index_problems(spec: Object) -> Iterable[Problem]:
    mode = spec["completionMode"]
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if mode not in _MODES:
        yield not_supported("spec.completionMode", mode, _MODES)
    elif mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                yield invalid(f"spec.{name}", spec[name], "requires indexed completion mode")
    else:
        yield from _indexed_problems(spec)


def _indexed_problems(spec: Object) -> Iterable[Problem]:
    completions, parallelism = spec.get("completions"), spec["parallelism"]
    most_failed = spec.get("maxFailedIndexes")
    if completions is None:
        yield required("spec.completions", "when completion mode is Indexed")
    if parallelism > _MOST:
        words = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        yield invalid("spec.parallelism", parallelism, words)
    if most_failed is not None and completions is not None and most_failed > completions:
        yield invalid("spec.maxFailedIndexes", most_failed, "must be less than or equal to completions")
    if most_failed is not None and most_failed > _MOST:
        yield invalid("spec.maxFailedIndexes", most_failed, f"must be less than or equal to {_MOST}")
    if completions is None or completions <= _MOST or "backoffLimitPerIndex" not in spec:
        return
    words = (
        f"must be less than or equal to {_MOST_WITH_HIGH_COMPLETIONS} when completions are above {_MOST} "
        "and used with backoff limit per index"
    )
    if most_failed is None:
        yield required("spec.maxFailedIndexes", f"must be specified when completions is above {_MOST}")
    if parallelism > _MOST_WITH_HIGH_COMPLETIONS:
        yield invalid("spec.parallelism", parallelism, words)
    if most_failed is not None and most_failed > _MOST_WITH_HIGH_COMPLETIONS:
        yield invalid("spec.maxFailedIndexes", most_failed, words)


def _success_policy_problems(spec: Object) -> Iterable[Problem]:
    if spec["completionMode"] != "Indexed":
        return [invalid("spec.successPolicy", spec["successPolicy"], "requires indexed completion mode")]
    if "completions" not in spec:
        return []  # said already; nothing to compare with
    return success_policy_problems(spec, "spec.successPolicy")


def _replacement_problems(spec: Object) -> Iterable[Problem]:
    policy = spec["podReplacementPolicy"]
    supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENT
    if policy not in supported:
        yield not_supported("spec.podReplacementPolicy", policy, supported)


def _restart_problems(spec: Object) -> Iterable[Problem]:
    field = "spec.template.spec.restartPolicy"
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy in ("", "Always"):
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(field, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _selector_problems(spec: Object) -> Iterable[Problem]:
    if "selector" not in spec:
        yield required("spec.selector")
    labels = spec["template"]["metadata"].get("labels")
    if "selector" not in spec or not matches_label_selector(spec["selector"], labels or {}):
        words = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, words)


def name_problems(job: Object) -> Iterable[Problem]:
    """Yield a problem where the name leaves no room for an index, which pods have in their host name."""
    completions = job["spec"].get("completions") or 0
    if job["spec"]["completionMode"] != "Indexed" or completions <= 0:
        return
    name = job["metadata"]["name"]
    longest = f"{name}-{completions - 1}"
    if dns_label_faults(longest):
        words = f"will not able to create pod with invalid DNS label: {longest}"
        yield invalid("metadata.name", name, words)


def job_warnings(job: Object) -> list[str]:
    """Return Kubernetes' warnings on a Job that it accepts."""
    warnings = []
    spec = job["spec"]
    if faults := dns_label_faults(job["metadata"]["name"]):
        warnings.append(
            "metadata.name: this is used in Pod names and hostnames, "
            "which can result in surprising behavior; "
            f"a DNS label is recommended: {faults}"
        )
    high = (spec.get("completions") or 0) > _MOST and spec["parallelism"] > _MOST_WITH_HIGH_COMPLETIONS
    if spec["completionMode"] == "Indexed" and high and "backoffLimitPerIndex" not in spec:
        warnings.append(
            f"spec.completions: completions above {_MOST} "
            f"with parallelism above {_MOST_WITH_HIGH_COMPLETIONS} "
            "may make status.completedIndexes too large to be tracked"
        )
    return warnings
