"""`${NAME}` in the string values of parsed YAML: never in its text, so that a value can't inject structure.

In commands, arguments and values of environment variables a name that is not given is the shell's
and stays. Anywhere else it is an error. `$${NAME}` is the literal `${NAME}`. Keys are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError

_REFERENCE = re.compile(r"(?P<escape>\$?)\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_WITH_DEFAULT = re.compile(r"(?<!\$)\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*):?[-=?+][^}]*\}")
_RUN_BY_A_SHELL = frozenset({"command", "args"})


def substitute(tree: Any, variables: Mapping[str, Any] | None, *, path: str = "") -> Any:
    """Return a copy of `tree` with each `${NAME}` replaced.

    A value that is exactly `${NAME}` becomes the variable as it is, with its type; inside a longer
    text a variable must be text, a number or a truth value.

    Args:
        tree: Parsed YAML; not changed.
        variables: By name.
        path: Where the tree stands, for errors.

    Raises:
        SpecError: With every name that is not given, and every value that fits no text, by path.
    """
    known = dict(variables or {})
    problems = [
        problem
        for where, text, is_shells in _texts(tree, path)
        for problem in _problems(where, text, known, is_shells=is_shells)
    ]
    problems += [
        Problem(where, key, "variables are replaced in values, not in keys", "Write the key out")
        for where, key in _keys(tree, path)
        if any(not found["escape"] for found in _REFERENCE.finditer(key))
    ]
    if problems:
        raise SpecError(*problems)
    return _mapped(tree, lambda text: _replaced(text, known))


def unused_variables(tree: Any, variables: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the variables that no value of `tree` refers to, sorted: likely a slip, but no error."""
    used = {
        found["name"]
        for _, text, _ in _texts(tree, "")
        for found in _REFERENCE.finditer(text)
        if not found["escape"]
    }
    return tuple(sorted(set(variables or {}) - used))


def _problems(path: str, text: str, known: Mapping[str, Any], *, is_shells: bool) -> Iterator[Problem]:
    for found in _REFERENCE.finditer(text):
        name = found["name"]
        if found["escape"]:
            continue
        if name not in known:
            if not is_shells:
                names = ", ".join(sorted(map(str, known))) or "none"
                mend = f"Give it in variables (known: {names}), or write $${{{name}}} if the text is meant"
                yield Problem(path, text, f"there is no variable {name}", mend)
        elif found[0] != text and not isinstance(known[name], (str, bool, int, float)):
            kind = type(known[name]).__name__
            why = f"variable {name} is a {kind}, which fits into no text"
            yield Problem(path, text, why, f"Let it stand alone as ${{{name}}}, or give text")
    if is_shells:
        return
    for found in _WITH_DEFAULT.finditer(text):
        name = found["name"]
        why = f"only ${{{name}}} is replaced, without the shell's operators"
        yield Problem(path, text, why, f"Write ${{{name}}} and give {name} in variables")


def _replaced(text: str, known: Mapping[str, Any]) -> Any:
    exact = _REFERENCE.fullmatch(text)
    if exact is not None and not exact["escape"] and exact["name"] in known:
        return known[exact["name"]]
    return _REFERENCE.sub(lambda found: _replacement(found, known), text)


def _replacement(found: re.Match[str], known: Mapping[str, Any]) -> str:
    if found["escape"]:
        return found[0][1:]
    if found["name"] not in known:
        return found[0]
    value = known[found["name"]]
    return str(value).lower() if isinstance(value, bool) else str(value)  # YAML's spelling of truth


def _mapped(tree: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: _mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_mapped(value, change) for value in tree]
    return tree


def _texts(
    tree: Any, path: str, key: str = "", *, is_shells: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Yield path and text of each string value, and whether unknown names in it are the shell's."""
    if isinstance(tree, str):
        yield path, tree, is_shells
    elif isinstance(tree, Mapping):
        for name, value in tree.items():
            shells = is_shells or name in _RUN_BY_A_SHELL or (key == "env" and name == "value")
            yield from _texts(value, _joined(path, name), str(name), is_shells=shells)
    elif isinstance(tree, (list, tuple)):
        for at, value in enumerate(tree):
            yield from _texts(value, f"{path}[{at}]", key, is_shells=is_shells)


def _keys(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            if isinstance(name, str):
                yield path or "the manifest", name
            yield from _keys(value, _joined(path, name))
    elif isinstance(tree, (list, tuple)):
        for at, value in enumerate(tree):
            yield from _keys(value, f"{path}[{at}]")


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
