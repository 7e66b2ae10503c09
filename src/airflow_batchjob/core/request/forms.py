"""The form of each parameter: a mapping where a mapping belongs, text where text does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.rules.fields import (
    LIST_SHAPES,
    POD_SHAPE,
    RESOURCES_SHAPE,
    key_problems,
    shape_problems,
)

_TEXTS = ("image", "container", "service_account_name", "name", "namespace")
_WORDS = ("command", "args")
_MAPPINGS = {
    "variables": '{"NAME": "value"}',
    "container_resources": '{"limits": {"memory": "2Gi"}}',
    "pod": '{"priorityClassName": "batch"}',
    "labels": '{"team": "search"}',
    "annotations": '{"owner": "search"}',
    "node_selector": '{"disk": "ssd"}',
    "exit_codes": '{"fail_index": [42], "fail_job": [43]}',
}
_LISTS = {
    "env_from": '[{"secretRef": {"name": "token"}}]',
    "tolerations": '[{"key": "gpu", "operator": "Exists"}]',
    "image_pull_secrets": '["registry"]',
}
# Without these nothing can be built that is worth judging. Numbers and text that are wrong harm nothing.
_ESSENTIAL = frozenset({"manifest", "variables", "pod", "container"})
_SPARED = frozenset({*_WORDS, *_MAPPINGS, *_LISTS, "env", "stop_when_succeeded"}) - _ESSENTIAL


def form_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield what has the wrong form, field by field."""
    yield from _text_problems(spec)
    for field in _WORDS:
        yield from _word_problems(field, getattr(spec, field))
    for field, example in _MAPPINGS.items():
        value = getattr(spec, field)
        if value is not None and not isinstance(value, Mapping):
            yield Problem(field, value, "not a mapping", f"Give e.g. {example}")
    for field, example in _LISTS.items():
        value = getattr(spec, field)
        if value is not None and not isinstance(value, list | tuple):
            yield Problem(field, value, "not a list", f"Give e.g. {example}")
        elif value and field in LIST_SHAPES:
            yield from shape_problems(value, LIST_SHAPES[field], field)
    yield from _secret_problems(spec.image_pull_secrets)
    yield from _env_problems(spec.env)
    for field, shape in (("pod", POD_SHAPE), ("container_resources", RESOURCES_SHAPE)):
        value = getattr(spec, field)
        if isinstance(value, Mapping):
            yield from shape_problems(value, shape, field)
            yield from key_problems(value, field)
    yield from _variable_problems(spec.variables)
    stop: Any = spec.stop_when_succeeded
    if not isinstance(stop, bool):
        yield Problem("stop_when_succeeded", stop, "neither true nor false", "Write True or False")


def usable(spec: JobSpec) -> JobSpec | None:
    """Return `spec` without what is broken in form, so that the rest can be judged.

    Returns:
        None where nothing sensible can be said about the rest.
    """
    broken = {re.split(r"[.\[]", problem.field, maxsplit=1)[0] for problem in form_problems(spec)}
    if broken & _ESSENTIAL:
        return None
    empty = JobSpec()
    return replace(spec, **{name: getattr(empty, name) for name in broken & _SPARED})


def _text_problems(spec: JobSpec) -> Iterator[Problem]:
    manifest: Any = spec.manifest
    if manifest is not None and not isinstance(manifest, str | Mapping):
        mend = "Give a batch/v1 Job as YAML or as a dict"
        yield Problem("manifest", f"({type(manifest).__name__})", "neither text nor a mapping", mend)
    for field in _TEXTS:
        value = getattr(spec, field)
        if value is not None and not isinstance(value, str):
            yield Problem(field, value, "not text", "Give text")
        elif value is not None and not value.strip():
            # An empty value is most often a template that found nothing: nobody means it.
            yield Problem(field, value, "it is empty", "Give a value, or leave the parameter out")


def _word_problems(field: str, words: Any) -> Iterator[Problem]:
    if words is None:
        return
    if not isinstance(words, list | tuple):
        mend = 'Give a list of words, e.g. ["sh", "-c", "…"]'
        yield Problem(field, words, "not a list", mend, hide=True)
        return
    for at, word in enumerate(words):
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            yield Problem(f"{field}[{at}]", word, "not text", "Write it as text")


def _secret_problems(secrets: Any) -> Iterator[Problem]:
    for at, secret in enumerate(secrets if isinstance(secrets, list | tuple) else ()):
        if not isinstance(secret.get("name") if isinstance(secret, Mapping) else secret, str):
            yield Problem(f"image_pull_secrets[{at}]", secret, "not the name of a secret", "Write its name")


def _env_problems(env: Any) -> Iterator[Problem]:
    # Values may be secrets, so none is shown but text that stands where no value can.
    if env is not None and not isinstance(env, Mapping | list | tuple):
        yield Problem("env", _without_value(env), "not a mapping", 'Give e.g. {"NAME": "value"}')
    for at, item in enumerate(env if isinstance(env, list | tuple) else ()):
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            mend = 'Give e.g. {"NAME": "value"}, or a list of {"name": "NAME", "value": "value"}'
            yield Problem(f"env[{at}]", _without_value(item), "not a variable with a name", mend)


def _without_value(item: Any) -> Any:
    if isinstance(item, Mapping):
        return f"({', '.join(map(str, item)) or 'empty'})"
    if isinstance(item, str):
        name, equals, _ = item.partition("=")
        return f"{name}=…" if equals else item
    return item if item is None else f"({type(item).__name__})"


def _variable_problems(variables: Any) -> Iterator[Problem]:
    for name in variables if isinstance(variables, Mapping) else ():
        if not isinstance(name, str):
            yield Problem(f"variables[{name!r}]", name, "the name of a variable is text", "Quote it")
