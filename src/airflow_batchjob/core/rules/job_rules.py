"""What Kubernetes would refuse about a Job's own fields.

A value that is no number is named once, and not compared with others.

Source: kubernetes/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.request.budget import count_problem, whole_number
from airflow_batchjob.core.wording import counted

_COUNTS = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "ttlSecondsAfterFinished",
)
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
MOST_PARALLEL = 100_000
_MANY = 100_000  # completions above which the two limits below hold, with a budget per index
_MOST_PARALLEL_OF_MANY = 10_000
_MOST_FAILED_OF_MANY = 10_000
_MOST_RULES = 20
_LONGEST_LABEL = 63
_LARGEST_SECONDS = 2**63 - 1
_DOMAIN_PATH = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/\S+")


def job_problems(job: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the fields beside the pod template. Takes a Job in the right shape."""
    spec = job.get("spec") or {}
    for field in _COUNTS:
        most = {"most": _LARGEST_SECONDS} if field == "activeDeadlineSeconds" else {}
        if spec.get(field) is not None and (problem := count_problem(f"spec.{field}", spec[field], **most)):
            yield problem
    yield from _choice("spec.completionMode", spec.get("completionMode"), _MODES)
    yield from _choice("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), _REPLACEMENTS)
    if spec.get("completionMode") == "Indexed":
        yield from _indexed_problems(spec)
    elif spec.get("completionMode") in (None, "NonIndexed"):
        yield from _not_indexed_problems(spec)
    yield from _failure_policy_problems(spec)
    yield from _success_policy_problems(spec)
    manager = spec.get("managedBy")
    if manager is not None and not (
        isinstance(manager, str) and _DOMAIN_PATH.fullmatch(manager) and len(manager) <= _LONGEST_LABEL
    ):
        yield Problem("spec.managedBy", manager, "not a path below a domain", "Write e.g. acme.io/queue")


def name_problems(field: str, name: str, *, completions: int | None, indexed: bool) -> Iterator[Problem]:
    """Say whether a Job's name leaves room for what Kubernetes adds.

    Args:
        field: Where the author wrote it.
        name: As written.
        completions: Of the Job; pods of an Indexed one are called name + "-" + index.
        indexed: Whether the Job is Indexed.
    """
    suffix = f"-{completions - 1}" if indexed and completions else ""
    longest = _LONGEST_LABEL - len(suffix)
    if len(name) > longest:
        room = f" with room for the index suffix {suffix!r}" if suffix else ""
        why = f"{counted(len(name), 'character')}, where a Job's name has at most {longest}{room}"
        yield Problem(field, name, why, f"Shorten it to {counted(longest, 'character')}")


def number_at(spec: Mapping[str, Any], field: str) -> int | None:
    """Return the number in a field; None where it is absent or no number."""
    try:
        return whole_number(spec.get(field))
    except ValueError:
        return None


def _indexed_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    completions, parallelism = number_at(spec, "completions"), number_at(spec, "parallelism")
    failed = number_at(spec, "maxFailedIndexes")
    if spec.get("completions") is None and spec.get("parallelism") is not None:
        yield Problem(
            "spec.completions", None, "an Indexed Job says how many indexes it has", "Give completions"
        )
    if parallelism is not None and parallelism > MOST_PARALLEL:
        why = f"Kubernetes runs at most {MOST_PARALLEL} pods of an Indexed Job at once"
        yield Problem("spec.parallelism", parallelism, why, f"Give parallelism of {MOST_PARALLEL} or less")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        why = "missing, and maxFailedIndexes counts indexes that have used it up"
        yield Problem(
            "spec.backoffLimitPerIndex", None, why, "Give retries_per_index, or backoffLimitPerIndex"
        )
    if failed is not None and completions and failed > completions:
        why = f"more than {counted(completions, 'completion')}"
        yield Problem("spec.maxFailedIndexes", failed, why, f"Give {completions} or less")
    if failed is not None and failed > MOST_PARALLEL:
        why = f"Kubernetes allows at most {MOST_PARALLEL}"
        yield Problem("spec.maxFailedIndexes", failed, why, f"Give {MOST_PARALLEL} or less")
    if completions is not None and completions > _MANY and spec.get("backoffLimitPerIndex") is not None:
        yield from _limits_of_many(spec, completions, parallelism, failed)


def _limits_of_many(
    spec: Mapping[str, Any], completions: int, parallelism: int | None, failed: int | None
) -> Iterator[Problem]:
    reason = f"with {completions} completions (above {_MANY}) and a budget per index"
    if spec.get("maxFailedIndexes") is None:
        mend = f"Give max_failed_indexes of {_MOST_FAILED_OF_MANY} or less"
        yield Problem("spec.maxFailedIndexes", None, f"must be given {reason}", mend)
    elif failed is not None and failed > _MOST_FAILED_OF_MANY:
        why = f"Kubernetes allows at most {_MOST_FAILED_OF_MANY} {reason}"
        yield Problem("spec.maxFailedIndexes", failed, why, f"Give {_MOST_FAILED_OF_MANY} or less")
    if parallelism is not None and _MOST_PARALLEL_OF_MANY < parallelism <= MOST_PARALLEL:
        why = f"Kubernetes allows at most {_MOST_PARALLEL_OF_MANY} {reason}"
        yield Problem(
            "spec.parallelism", parallelism, why, f"Give parallelism of {_MOST_PARALLEL_OF_MANY} or less"
        )


def _not_indexed_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(field) is not None:
            value = spec[field] if not isinstance(spec[field], Mapping) else "(a policy)"
            why = "it needs indexes, and the Job's completionMode is not Indexed"
            yield Problem(f"spec.{field}", value, why, "Write completionMode: Indexed, or take it out")


def _failure_policy_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    path = "spec.podFailurePolicy.rules"
    rules = policy.get("rules") or []
    if len(rules) > _MOST_RULES:
        yield Problem(path, len(rules), f"Kubernetes allows at most {_MOST_RULES} rules", "Join some of them")
    if spec.get("podReplacementPolicy") == "TerminatingOrFailed":
        why = "a podFailurePolicy judges pods that have failed, not those that are about to"
        yield Problem("spec.podReplacementPolicy", "TerminatingOrFailed", why, "Write Failed")
    names = _container_names(spec)
    for at, rule in enumerate(rules):
        yield from _rule_problems(f"{path}[{at}]", rule, spec, names)


def _rule_problems(
    path: str, rule: Mapping[str, Any], spec: Mapping[str, Any], names: list[str]
) -> Iterator[Problem]:
    if (action := rule.get("action")) is None:
        yield Problem(f"{path}.action", None, "missing", f"Write one of {', '.join(_ACTIONS)}")
    yield from _choice(f"{path}.action", action, _ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        why = "an index can fail by itself only where each has a budget"
        yield Problem(f"{path}.action", action, why, "Give retries_per_index, or backoffLimitPerIndex")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if (codes is None) == (not conditions):
        why = "a rule looks either at exit codes or at pod conditions"
        yield Problem(
            path, "both" if conditions else None, why, "Give one of onExitCodes and onPodConditions"
        )
    if codes is not None:
        yield from _exit_code_problems(f"{path}.onExitCodes", codes, names)
    for at, condition in enumerate(conditions or ()):
        where = f"{path}.onPodConditions[{at}]"
        if not condition.get("type"):
            yield Problem(f"{where}.type", None, "missing", "Write e.g. DisruptionTarget")
        yield from _choice(f"{where}.status", condition.get("status"), ("True", "False", "Unknown"))


def _exit_code_problems(path: str, codes: Mapping[str, Any], names: list[str]) -> Iterator[Problem]:
    operator, values, container = codes.get("operator"), codes.get("values") or [], codes.get("containerName")
    if operator is None:
        yield Problem(f"{path}.operator", None, "missing", "Write In or NotIn")
    yield from _choice(f"{path}.operator", operator, ("In", "NotIn"))
    if container is not None and container not in names:
        yield Problem(
            f"{path}.containerName", container, "there is no such container", f"Use one of {', '.join(names)}"
        )
    if not values:
        yield Problem(f"{path}.values", values, "it is empty", "Give at least one exit code")
    elif not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        yield Problem(f"{path}.values", values, "exit codes are numbers", "Write e.g. [42]")
    elif values != sorted(set(values)):
        yield Problem(
            f"{path}.values", values, "not in rising order without repeats", f"Write {sorted(set(values))}"
        )
    elif operator == "In" and 0 in values:
        yield Problem(f"{path}.values", values, "0 is success", "Take 0 out")
    elif len(values) > 255:
        yield Problem(f"{path}.values", len(values), "more than 255 exit codes", "Use NotIn")


def _success_policy_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    policy = spec.get("successPolicy")
    if policy is None or spec.get("completionMode") != "Indexed":
        return
    path = "spec.successPolicy.rules"
    rules = policy.get("rules") or []
    if not 1 <= len(rules) <= _MOST_RULES:
        yield Problem(path, len(rules), f"there must be 1 to {_MOST_RULES} rules", "Add or join some")
    completions = number_at(spec, "completions")
    for at, rule in enumerate(rules):
        yield from _success_rule_problems(f"{path}[{at}]", rule, completions)


def _success_rule_problems(path: str, rule: Mapping[str, Any], completions: int | None) -> Iterator[Problem]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        mend = "Give succeededCount, succeededIndexes or both"
        yield Problem(path, None, "it does not say when enough has succeeded", mend)
    listed = completions
    if indexes is not None:
        try:
            listed = IndexSet.typed(indexes, field=f"{path}.succeededIndexes", completions=completions).count
        except SpecError as error:
            yield from error.problems
    if count is not None and (problem := count_problem(f"{path}.succeededCount", count)):
        yield problem
    elif count is not None and listed is not None and whole_number(count) > listed:
        why = f"more than the {counted(listed, 'index', 'indexes')} it is counted over"
        yield Problem(f"{path}.succeededCount", count, why, f"Give {listed} or less")


def _container_names(spec: Mapping[str, Any]) -> list[str]:
    pod = (spec.get("template") or {}).get("spec") or {}
    groups = (pod.get("containers") or (), pod.get("initContainers") or ())
    return [str(container.get("name")) for group in groups for container in group]


def _choice(field: str, value: Any, known: tuple[str, ...]) -> Iterator[Problem]:
    if value is not None and value not in known:
        yield Problem(field, value, "there is no such choice", f"Write one of {', '.join(known)}")
