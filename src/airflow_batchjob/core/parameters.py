"""What is wrong with each parameter by itself, whatever the manifest says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_batchjob.core.budget import count_problem, share_problem, threshold_problems, whole_number
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.fields import POD_SHAPE, shape_problems
from airflow_batchjob.core.machine import Machine
from airflow_batchjob.core.policies import SKIP, exit_code_problems
from airflow_batchjob.core.spec import NOT_GIVEN, JobSpec
from airflow_batchjob.core.typed import literal_problems

_TEXTS = ("image", "container", "service_account_name", "name", "namespace")
_TEXT_LISTS = ("command", "args")
_MAPPINGS = {
    "variables": '{"NAME": "value"}',
    "container_resources": '{"limits": {"memory": "2Gi"}}',
    "pod": '{"priorityClassName": "batch"}',
    "labels": '{"team": "search"}',
    "annotations": '{"owner": "search"}',
    "node_selector": '{"disk": "ssd"}',
}
_LISTS = {
    "env_from": '[{"secretRef": {"name": "token"}}]',
    "tolerations": '[{"key": "gpu", "operator": "Exists"}]',
    "image_pull_secrets": '["registry"]',
}
_COUNTS = {
    "completions": 0,
    "parallelism": 0,
    "retries_per_index": 0,
    "backoff_limit": 0,
    "deadline_seconds": 1,
    "pending_seconds": 1,
}
_ESSENTIAL = frozenset({"manifest", "variables", "pod", "container"})
_SPARED = (
    frozenset({*_TEXT_LISTS, *_MAPPINGS, *_LISTS, "env", "exit_codes", "stop_when_succeeded"}) - _ESSENTIAL
)
_SHARES = ("max_failed_indexes", "min_succeeded")


def parameter_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield all that can be said without the manifest: types, ranges, contradictions."""
    yield from _text_problems(spec)
    yield from _shape_problems(spec)
    yield from _number_problems(spec)
    if spec.exit_codes:
        yield from exit_code_problems(spec.exit_codes)
    yield from _machine_problems(spec)
    stop: Any = spec.stop_when_succeeded
    if not isinstance(stop, bool):
        yield Problem("stop_when_succeeded", stop, "neither true nor false", "Write True or False")
    yield from _contradictions(spec)


def usable(spec: JobSpec, problems: Sequence[Problem]) -> JobSpec | None:
    """Return `spec` without what is broken in form, so that the rest can be judged.

    Args:
        spec: As given.
        problems: Those of its parameters. Numbers and text that are wrong stay: they harm nothing.

    Returns:
        None where nothing sensible can be said about the rest.
    """
    broken = {re.split(r"[.\[]", problem.field, maxsplit=1)[0] for problem in problems}
    if broken & _ESSENTIAL:
        return None
    empty = JobSpec()
    return replace(spec, **{name: getattr(empty, name) for name in broken & _SPARED})


def machine_of(spec: JobSpec) -> Machine | None:
    """Return the machine that is asked for.

    Raises:
        SpecError: It is no machine, or one whose name nobody has looked up.
    """
    if spec.machine is None:
        return None
    if isinstance(spec.machine, str):
        if "=" not in spec.machine:
            mend = 'Name one of the connection\'s machines, or write e.g. "cpu=20,memory=101Gi,gpus=1"'
            raise SpecError(Problem("machine", spec.machine, "there is no machine of that name", mend))
        return Machine.parse(spec.machine)
    machine: Any = spec.machine
    if not isinstance(machine, Machine):
        mend = 'Give Machine(cpu=20, memory="101Gi")'
        raise SpecError(Problem("machine", machine, "not a machine", mend))
    if problems := tuple(machine.problems()):
        raise SpecError(*problems)
    return machine


def _text_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in _TEXTS:
        value = getattr(spec, field)
        if value is not None and not isinstance(value, str):
            yield Problem(field, value, "not text", "Give text")
        elif value is not None and not value.strip():
            # An empty value is most often a template that found nothing: nobody means it.
            yield Problem(field, value, "it is empty", "Give a value, or leave the parameter out")


def _shape_problems(spec: JobSpec) -> Iterator[Problem]:
    manifest: Any = spec.manifest
    if manifest is not None and not isinstance(manifest, str | Mapping):
        mend = "Give a batch/v1 Job as YAML or as a dict"
        yield Problem("manifest", type(manifest).__name__, "neither text nor a mapping", mend)
    for field in _TEXT_LISTS:
        yield from _word_problems(field, getattr(spec, field))
    for field, example in _MAPPINGS.items():
        value = getattr(spec, field)
        if value is not None and not isinstance(value, Mapping):
            yield Problem(field, value, "not a mapping", f"Give e.g. {example}")
    for field, example in _LISTS.items():
        value = getattr(spec, field)
        if value is not None and not isinstance(value, list | tuple):
            yield Problem(field, value, "not a list", f"Give e.g. {example}")
    env: Any = spec.env
    if env is not None and not isinstance(env, Mapping | list | tuple):
        shown = env if isinstance(env, str) else type(env).__name__
        yield Problem("env", shown, "not a mapping", 'Give e.g. {"NAME": "value"}')
    if isinstance(env, list | tuple):
        yield from (
            Problem(
                f"env[{at}]", type(item).__name__, "not a variable with a name", "Write a mapping by name"
            )
            for at, item in enumerate(env)
            if not isinstance(item, Mapping) or not isinstance(item.get("name"), str)
        )
    if isinstance(spec.pod, Mapping):
        yield from shape_problems(spec.pod, POD_SHAPE, "pod")
        yield from literal_problems(spec.pod, "pod")


def _word_problems(field: str, words: Any) -> Iterator[Problem]:
    if words is None:
        return
    if not isinstance(words, list | tuple):
        yield Problem(field, words, "not a list", 'Give a list of words, e.g. ["sh", "-c", "…"]')
        return
    for at, word in enumerate(words):
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            yield Problem(f"{field}[{at}]", word, "not text", "Write it as text")


def _number_problems(spec: JobSpec) -> Iterator[Problem]:
    for field, least in _COUNTS.items():
        value = getattr(spec, field)
        if value is not None and (problem := count_problem(field, value, least=least)):
            yield problem
    for field in _SHARES:
        value = getattr(spec, field)
        if value is not None and (problem := share_problem(field, value)):
            yield problem
    ttl = spec.ttl_seconds_after_finished
    if (
        ttl is not NOT_GIVEN
        and ttl is not None
        and (problem := count_problem("ttl_seconds_after_finished", ttl))
    ):
        yield problem


def _machine_problems(spec: JobSpec) -> Iterator[Problem]:
    try:
        machine_of(spec)
    except SpecError as error:
        yield from error.problems


def _contradictions(spec: JobSpec) -> Iterator[Problem]:
    if spec.container_resources and spec.machine is not None:
        why = "the machine's shares replace what a container asks for"
        yield Problem(
            "container_resources", dict(spec.container_resources), why, "Give it or machine, not both"
        )
    completions = _number(spec.completions)
    if completions:
        yield from threshold_problems(
            completions, max_failed_indexes=spec.max_failed_indexes, min_succeeded=spec.min_succeeded
        )
    if completions is not None and completions > 1 and _skips(spec):
        yield skip_problem(spec, completions)


def skip_problem(spec: JobSpec, completions: int | None) -> Problem:
    """Say why this Job can't be skipped by an exit code."""
    count = "a work queue" if completions is None else f"{completions} completions"
    why = f"one pod can't skip the task for all others ({count})"
    mend = "Use fail_index, or run a Job of one completion"
    return Problem("exit_codes['skip']", list(spec.exit_codes[SKIP]), why, mend)


def _skips(spec: JobSpec) -> bool:
    codes: Any = spec.exit_codes
    return isinstance(codes, Mapping) and bool(codes.get(SKIP))


def _number(value: Any) -> int | None:
    try:
        return whole_number(value)
    except ValueError:
        return None
