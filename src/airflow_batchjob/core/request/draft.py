"""A Job in the making: what has been put into it so far, by whom, and what was noticed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.budget import whole_number

INDEXED = "Indexed"
NON_INDEXED = "NonIndexed"
ON_FAILURE = "OnFailure"


@dataclass(slots=True, kw_only=True)
class Draft:
    """Lives inside one `build`, which owns it: the one place here where a value changes.

    Attributes:
        job: The batch/v1 object, a copy of our own.
        from_parameters: There is no manifest.
        notes: What is done without being asked for, in words.
        problems: What is wrong.
        names: Path in the Job to the parameter that put the value there.
        resources_known: False where a machine could not be shared out.
        is_incomplete: Variables are missing, so `${NAME}` stands where a value should.
    """

    job: dict[str, Any]
    from_parameters: bool
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    resources_known: bool = True
    is_incomplete: bool = False

    @property
    def metadata(self) -> dict[str, Any]:
        """The Job's own metadata."""
        return _below(self.job, "metadata")

    @property
    def spec(self) -> dict[str, Any]:
        """The Job's spec."""
        return _below(self.job, "spec")

    @property
    def template(self) -> dict[str, Any]:
        """The pod template."""
        return _below(self.spec, "template")

    @property
    def pod(self) -> dict[str, Any]:
        """The pod template's spec."""
        return _below(self.template, "spec")

    @property
    def template_metadata(self) -> dict[str, Any]:
        """The pods' metadata."""
        return _below(self.template, "metadata")

    @property
    def mode(self) -> str:
        """The completion mode; text of its own where it is neither of the two."""
        return str(self.spec.get("completionMode") or NON_INDEXED)

    @property
    def restarts_in_place(self) -> bool:
        """Whether containers are restarted, rather than pods replaced."""
        return bool(self.pod.get("restartPolicy") == ON_FAILURE)

    @property
    def completions(self) -> int | None:
        """How many completions Kubernetes will count; None for a work queue, or where it can't be read."""
        spec = self.spec
        if spec.get("completions") is None:
            return 1 if spec.get("parallelism") is None else None
        try:
            return whole_number(spec["completions"])
        except ValueError:
            return None

    def put(self, field: str, value: Any, parameter: str) -> None:
        """Set a field of the spec to a parameter's value, as a number where it is one."""
        self.spec[field] = number_or_raw(value)
        self.names[f"spec.{field}"] = parameter

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Note what a step refuses, and go on."""
        try:
            yield
        except SpecError as error:
            self.problems.extend(error.problems)

    def refuse(self, parameter: str, value: object, why: str, mend: str) -> None:
        """Note a problem with a parameter."""
        self.problems.append(Problem(parameter, value, why, mend))


def number_or_raw(value: Any) -> Any:
    """Return a number where `value` means one; otherwise itself, for validation to name."""
    try:
        return whole_number(value)
    except ValueError:
        return value


def _below(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    inner: dict[str, Any] = mapping.setdefault(key, {})
    return inner
