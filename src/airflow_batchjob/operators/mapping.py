"""Mapped tasks: what `partial()` and `expand()` say is checked when the DAG is parsed.

Airflow makes a mapped operator only when its task runs. What is known before stands in for it here,
and what other tasks will give is unknown, as templates are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from itertools import islice, product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.early import UNKNOWN
from airflow_batchjob.operators.foreign_names import refuse_foreign_names
from airflow_batchjob.operators.parameters import airflow_problems, job_problems
from airflow_batchjob.unknown_names import refuse_unknown_names

if TYPE_CHECKING:
    from airflow_batchjob.operators.batchjob import BatchJobOperator

_MOST_CHECKED = 100
"""Of a long list the first ones are checked: parsing a DAG file must stay quick."""


class Partial:
    """`partial()` of an operator class, in place of Airflow's own: it checks what it is given."""

    def __set_name__(self, owner: type[BaseOperator], name: str) -> None:
        """Remember whose it is: classes that inherit from it come later."""
        self._owner = owner

    def __get__(self, task: BaseOperator | None, operator: type[BaseOperator]) -> Any:
        """Return what makes mapped tasks of a class; a task gets Airflow's own answer, that it can't."""
        if task is not None:
            return cast("Any", super(self._owner, task)).partial

        def partial(**kwargs: Any) -> OperatorPartial:
            refuse_foreign_names(kwargs)
            refuse_unknown_names(operator, kwargs)
            made: OperatorPartial = cast("Any", super(self._owner, operator)).partial(**kwargs)
            made._expand_called = True  # else Airflow complains that nobody ever mapped this one  # noqa: SLF001
            _refuse(operator, made.kwargs, may_come=True)
            return CheckedPartial(operator_class=operator, kwargs=made.kwargs, params=made.params)

        return partial


class CheckedPartial(OperatorPartial):
    """Refuses at `expand()` what would fail in every run."""

    __slots__ = ()

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Map over what is given, as every operator does."""
        self._expand_called = True  # or tried
        refuse_foreign_names(mapped_kwargs)
        refuse_unknown_names(self.operator_class, mapped_kwargs)
        made = super().expand(**mapped_kwargs)
        for case in _cases(mapped_kwargs):
            _refuse(self.operator_class, {**self.kwargs, **case})
        return made

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """Map over dicts of arguments, as every operator does."""
        made = super().expand_kwargs(kwargs, strict=strict)
        for case in kwargs[:_MOST_CHECKED] if isinstance(kwargs, list | tuple) else ():
            if isinstance(case, Mapping):
                refuse_foreign_names(case)
                _refuse(self.operator_class, {**self.kwargs, **case})
        return made


def _refuse(operator: type[BaseOperator], kwargs: Mapping[str, Any], *, may_come: bool = False) -> None:
    """Raise for what is surely wrong with these arguments; with `may_come` others are still to come."""
    owner, defaults = _ours(operator)
    templated = set(operator.template_fields)
    known = {name: value for name, value in kwargs.items() if name in defaults}
    elsewhere = set(defaults) if may_come else _given_elsewhere(kwargs) & set(defaults)
    missing = elsewhere - set(known)
    values = {**defaults, **dict.fromkeys(missing & templated, UNKNOWN), **known}
    given = cast("BatchJobOperator", SimpleNamespace(**values, template_fields=templated))
    problems = [problem for problem in airflow_problems(given) if UNKNOWN not in str(problem.value)]
    unknown = missing | {name for name, value in known.items() if isinstance(value, str) and value == UNKNOWN}
    # A rule may ask for what a class that inherits adds, or for what is not there yet.
    if operator is owner and unknown <= templated:
        problems += job_problems(given)
    if problems:
        raise SpecError(*problems)


def _given_elsewhere(kwargs: Mapping[str, Any]) -> set[str]:
    """Return the names in `default_args` of the DAG and the task group."""
    parents = (kwargs.get("dag"), kwargs.get("task_group"))
    return {name for parent in parents for name in getattr(parent, "default_args", None) or {}}


def _ours(operator: type[BaseOperator]) -> tuple[type[BaseOperator], dict[str, Any]]:
    """Return the class whose `partial()` this is, and the parameters that it adds, with their defaults."""
    owner = next(cls for cls in operator.mro() if isinstance(vars(cls).get("partial"), Partial))
    signature = inspect.signature(inspect.unwrap(vars(owner)["__init__"]))
    own = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return owner, own


def _cases(mapped: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what `expand()` will give to some tasks: what other tasks give stays unknown."""
    values = [_values(value) for value in mapped.values()]
    yield from (dict(zip(mapped, case, strict=True)) for case in islice(product(*values), _MOST_CHECKED))


def _values(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(value) if isinstance(value, list | tuple) else [UNKNOWN]
