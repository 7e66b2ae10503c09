"""What is wrong with a request before its templates are rendered: all that is known is checked.

What is not known yet is a piece of text: Jinja stays as it is, and another task's output becomes a
placeholder. The request is built as it will be later, and every problem that is about such text is
dropped, for it may be gone by then. So there is one set of rules, not a second for parse time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from airflow_batchjob.core.capacity.capacity import Capacity, choice_of
from airflow_batchjob.core.capacity.profiles import nobodys_profiles
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.parameters import parameter_problems
from airflow_batchjob.core.request.spec import TEMPLATED_FIELDS, JobSpec

UNKNOWN: Final = "{{ known when the task runs }}"
"""Stands for another task's output, and for a machine whose name nobody has looked up."""

_JINJA = re.compile(r"\{[{%#]")
_PARAMETERS = frozenset(field.name for field in fields(JobSpec))


def early_problems(spec: JobSpec) -> tuple[Problem, ...]:
    """Return what is surely wrong with `spec`, whatever its templates will say.

    Args:
        spec: As written in the DAG; the fields in `TEMPLATED_FIELDS` may hold Jinja or references to
            other tasks' output, whole or in parts. The manifest is its text, not its path.
    """
    asked = _masked(spec)
    if isinstance(asked.manifest, str) and is_templated(asked.manifest):
        problems = tuple(parameter_problems(asked))
    else:
        try:
            build(asked, default_name="task")
        except SpecError as error:
            problems = error.problems
        else:
            return ()
    return tuple(problem for problem in problems if not _may_vanish(problem))


def is_templated(value: object) -> bool:
    """Tell whether `value` is known only when the task runs, whole or in part."""
    if isinstance(value, str):
        return _JINJA.search(value) is not None
    if isinstance(value, Mapping):
        return any(is_templated(key) or is_templated(inner) for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return any(is_templated(inner) for inner in value)
    return _is_reference(value)


def _masked(spec: JobSpec) -> JobSpec:
    known = {name: _without_references(getattr(spec, name)) for name in TEMPLATED_FIELDS}
    if isinstance(spec.machine, str) and "=" not in spec.machine:
        known["machine"] = UNKNOWN
    if spec.capacity is not None:
        choice = choice_of(spec.capacity)
        # What the cluster calls its machines is read when the task runs.
        if not isinstance(choice, Problem):
            known["capacity"] = Capacity(choice=choice, profiles=nobodys_profiles())
    return replace(spec, **known)


def _without_references(value: Any) -> Any:
    if _is_reference(value):
        return UNKNOWN
    if isinstance(value, Mapping):
        return {key: _without_references(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_references(inner) for inner in value]
    return value


def _is_reference(value: object) -> bool:
    # Airflow's XComArg, DagParam and their like, told by what they do: the core knows no framework.
    return hasattr(type(value), "iter_references") and hasattr(type(value), "resolve")


def _may_vanish(problem: Problem) -> bool:
    if UNKNOWN in str(problem.value):
        return True
    parameter = re.split(r"[.\[]", problem.field, maxsplit=1)[0]
    is_literal = parameter in _PARAMETERS and parameter not in TEMPLATED_FIELDS
    return not is_literal and is_templated(problem.value)
