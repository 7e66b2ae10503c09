"""Arguments that no operator here has: each is named, with the one that was probably meant.

Airflow's own answer is a bare TypeError that says neither.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError


def refuse_unknown_names(operator: type, given: Mapping[str, Any]) -> None:
    """Raise for every name in `given` that `operator` and the classes above it don't take.

    Args:
        operator: The class that is made.
        given: What is left for the classes above, by name.

    Raises:
        SpecError: One problem for each such name.
    """
    known = known_names(operator)
    unknown = [name for name in given if name not in known and not name.startswith("_")]
    if unknown:
        raise SpecError(*(_problem(name, given[name], known) for name in unknown))


@lru_cache(maxsize=64)
def known_names(operator: type) -> frozenset[str]:
    """Return the arguments of a class and of all above it."""
    return frozenset(
        name
        for cls in operator.mro()
        if "__init__" in vars(cls)
        for name, parameter in inspect.signature(inspect.unwrap(vars(cls)["__init__"])).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and name != "self"
    )


def _problem(name: str, value: Any, known: frozenset[str]) -> Problem:
    from difflib import get_close_matches  # here: a DAG file that is right doesn't pay for it

    near = get_close_matches(name, sorted(known), n=1)
    mend = (
        f"Did you mean {near[0]}=" if near else "Leave it out, or see the operator's page for what there is"
    )
    return Problem(name, value, "there is no such argument", f"{mend}?" if near else mend)
