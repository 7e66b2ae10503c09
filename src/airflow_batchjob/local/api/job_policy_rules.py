"""What Kubernetes refuses in a Job's podFailurePolicy and successPolicy, and in texts of indexes."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_batchjob.local.api.names import qualified_name_faults
from airflow_batchjob.local.api.status import (
    OMITTED,
    Problem,
    Problems,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from airflow_batchjob.local.store import Object

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_MOST_INDEXES_BYTES = 65_536


def _choices(values: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(f'{chr(34)}{value}{chr(34)}' for value in values)}]"


def failure_policy_problems(spec: Object, path: str) -> Problems:
    """Return what is wrong with ``podFailurePolicy``."""
    rules = spec["podFailurePolicy"].get("rules") or []
    pod = spec["template"]["spec"]
    names = {c.get("name") for c in (*pod.get("containers", ()), *pod.get("initContainers", ()))}
    problems = [too_many(f"{path}.rules", len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    for number, rule in enumerate(rules):
        where = f"{path}.rules[{number}]"
        problems += _action_problems(spec, rule.get("action", ""), f"{where}.action")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            problems += _exit_code_problems(codes, f"{where}.onExitCodes", names)
        problems += _condition_problems(conditions, f"{where}.onPodConditions")
        if codes is not None and conditions:
            words = "specifying both OnExitCodes and OnPodConditions is not supported"
            problems.append(invalid(where, OMITTED, words))
        if codes is None and not conditions:
            words = "specifying one of OnExitCodes and OnPodConditions is required"
            problems.append(invalid(where, OMITTED, words))
    return problems


def _action_problems(spec: Object, action: str, field: str) -> Iterable[Problem]:
    if not action:
        yield required(field, _choices(_ACTIONS))
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield invalid(field, action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield not_supported(field, action, _ACTIONS)


def _exit_code_problems(codes: Object, path: str, names: set[str | None]) -> Iterable[Problem]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        yield required(f"{path}.operator", _choices(_OPERATORS))
    elif operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    container = codes.get("containerName")
    if container is not None and container not in names:
        words = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", container, words)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_EXIT_CODES:
        yield too_many(f"{path}.values", len(values), _MOST_EXIT_CODES)
    for number, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{path}.values[{number}]", value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _condition_problems(patterns: list[Object], path: str) -> Iterable[Problem]:
    if len(patterns) > _MOST_RULES:
        yield too_many(path, len(patterns), _MOST_RULES)
    for number, pattern in enumerate(patterns):
        where = f"{path}[{number}]"
        for fault in qualified_name_faults(pattern.get("type", "")):
            yield invalid(f"{where}.type", pattern.get("type", ""), fault)
        status = pattern.get("status", "")
        if not status:
            yield required(f"{where}.status", _choices(_STATUSES))
        elif status not in _STATUSES:
            yield not_supported(f"{where}.status", status, _STATUSES)


def success_policy_problems(spec: Object, path: str) -> Problems:
    """Return what is wrong with ``successPolicy`` of an Indexed Job with completions."""
    rules = spec["successPolicy"].get("rules") or []
    problems: Problems = []
    if not rules:
        words = "at least one rules must be specified when the successPolicy is specified"
        problems.append(required(f"{path}.rules", words))
    if len(rules) > _MOST_RULES:
        problems.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for number, rule in enumerate(rules):
        problems += _success_rule_problems(rule, spec["completions"], f"{path}.rules[{number}]")
    return problems


def _success_rule_problems(rule: Object, completions: int, path: str) -> Iterable[Problem]:
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and text is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    listed = 0
    if text is not None:
        field = f"{path}.succeededIndexes"
        if len(text) > _MOST_INDEXES_BYTES:
            yield too_long(field, _MOST_INDEXES_BYTES)
        try:
            listed = sum(last - first + 1 for first, last in parse_indexes(text, completions))
        except ValueError as error:
            yield invalid(field, text, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    field = f"{path}.succeededCount"
    if count < 0:
        yield invalid(field, count, "must be greater than or equal to 0")
    if count > completions:
        words = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(field, count, words)
    if text is not None and count > listed:
        words = (
            f"must be less than or equal to {listed} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid(field, count, words)


def parse_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """Read ``0-2,5`` as ranges with both ends.

    Raises:
        ValueError: It is not ascending ranges below `completions`; the text is Kubernetes' own.
    """
    ranges: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most '
                "two parts separated by '-'"
            )
        first, last = _index(ends[0], completions), _index(ends[-1], completions)
        before = first if len(ends) == 2 and first >= last else ranges[-1][1] if ranges else -1
        current = last if len(ends) == 2 and first >= last else first
        if before >= current:
            raise ValueError(f"non-increasing order, previous: {before}, current: {current}")
        ranges.append((first, last))
    return ranges


def _index(text: str, completions: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)


def overlap(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> int | None:
    """Return the lowest index in both lists of ranges, or None."""
    mine, theirs = 0, 0
    while mine < len(some) and theirs < len(others):
        first = max(some[mine][0], others[theirs][0])
        if first <= min(some[mine][1], others[theirs][1]):
            return first
        if some[mine][1] < others[theirs][1]:
            mine += 1
        else:
            theirs += 1
    return None
