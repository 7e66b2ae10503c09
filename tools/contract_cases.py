"""The cases that the local cluster and real ones are held to, as `tests/contract` has them, for a page.

A case begins with the numbers that it has in the description of Jobs which the cases were made from: a
test by its name (`test_r5_...`, `test_30_and_75_...`), a row of a table by its key ("52 and R8 a ...").
Where clusters differ, a paragraph of the test's docstring says it: "By version: ...", "Not as described:
...", "On the local cluster: ...".
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.markdown import table

TESTS = Path(__file__).parents[1] / "tests" / "contract"

_NUMBER = r"[rR]?\d+a?"
_OF_NAME = re.compile(rf"test_(?:(?P<numbers>{_NUMBER}(?:_and_{_NUMBER})*)_)?(?P<sentence>[a-z].*)")
_OF_KEY = re.compile(rf"(?:(?P<numbers>{_NUMBER}(?: and {_NUMBER})*) )?(?P<sentence>.*)")
_CONTEXT_WORDS = 3  # "an end" adds nothing to what ends
_NOTE = re.compile(r"(By version|Not as described|On the local cluster[^:]*): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something that holds on every cluster, or that the notes say more of."""

    numbers: tuple[str, ...]
    sentence: str
    context: str
    """What a row of a table is an instance of; empty where the sentence says it all."""
    notes: tuple[str, ...]
    module: str
    """The test's file, without `.py`."""
    count: int = 1
    """How often it is asked, with other values."""


def numbered(span: str) -> str:
    """Return a table of the cases with numbers from a span, as "10-31" or "R1-R17": a row for each number."""
    rows = []
    for number in numbers_of(span):
        found = [case for case in cases() if number in case.numbers]
        files = ", ".join(dict.fromkeys(_link(case.module) for case in found))
        rows.append((number, _held(found) or "no case", _notes(found), files))
    return table(("case", "what holds", "differences", "held by"), rows)


def differing(_: str) -> str:
    """Return a table of the cases without a number that are not the same everywhere."""
    found = [case for case in cases() if case.notes and not case.numbers]
    rows = [(case.sentence, _notes([case]), _link(case.module)) for case in found]
    return table(("what holds", "differences", "held by"), rows)


def further(_: str) -> str:
    """Return a table of the subjects of all cases, with how many have a number and how many have none."""
    rows = []
    for module in dict.fromkeys(case.module for case in cases()):
        of_module = [case for case in cases() if case.module == module]
        with_number = sum(case.count for case in of_module if case.numbers)
        all_ = sum(case.count for case in of_module)
        rows.append((_subject(_loaded(module)), str(with_number), str(all_ - with_number), _link(module)))
    return table(("subject", "numbered", "further", "held by"), rows)


def numbers_of(span: str) -> list[str]:
    """Return the numbers of a span; 61a comes after 61."""
    first, last = span.split("-")
    letter = "R" if first.startswith("R") else ""
    numbers = [f"{letter}{number}" for number in range(int(first.strip("R")), int(last.strip("R")) + 1)]
    added = {number for case in cases() for number in case.numbers if number.endswith("a")}
    return [one for number in numbers for one in (number, *({f"{number}a"} & added))]


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Return all cases, in the order of files and of tests within them."""
    return tuple(case for path in sorted(TESTS.glob("test_*.py")) for case in _cases_of(_loaded(path.stem)))


def _loaded(name: str) -> ModuleType:
    return importlib.import_module(f"tests.contract.{name}")


def _cases_of(module: ModuleType) -> Iterator[Case]:
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test) and test.__module__ == module.__name__:
            yield from _cases_of_test(test, module.__name__.rpartition(".")[2])


def _cases_of_test(test: Callable[..., Any], module: str) -> Iterator[Case]:
    numbers, sentence = _read(_OF_NAME, test.__name__)
    rows = _rows(test)
    if numbers or not any(" " in str(key) for key in rows):
        yield Case(
            numbers=numbers,
            sentence=_words(sentence),
            context="",
            notes=_notes_of(test),
            module=module,
            count=len(rows) or 1,
        )
        return
    for key, values in rows.items():
        numbers, instance = _read(_OF_KEY, key)
        outcome = _outcome(values)
        context = "" if outcome or sentence.count("_") < _CONTEXT_WORDS else _words(sentence)
        said = [note for value in values if inspect.isfunction(value) for note in _notes_of(value)]
        yield Case(
            numbers=numbers,
            sentence=f"{instance}{outcome}",
            context=context,
            notes=(*_notes_of(test), *said),
            module=module,
        )


def _rows(test: Callable[..., Any]) -> dict[Any, tuple[Any, ...]]:
    """Return the table that a test goes through, by key; empty where it has none."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            given = mark.args[1]
            keys = list(mark.kwargs.get("ids") or given)
            values = list(given.values() if isinstance(given, Mapping) else given)
            pairs = zip(keys, values, strict=True)
            return {key: value if isinstance(value, tuple) else (value,) for key, value in pairs}
    return {}


def _outcome(values: tuple[Any, ...]) -> str:
    """Return what a row wants, where that is refused fields with reasons, or conditions of a Job."""
    for value in values:
        match value:
            case set() if value and all(isinstance(one, tuple) for one in value):
                return ": " + ", ".join(f"`{field}` {reason}" for field, reason in sorted(value))
            case [*_, (str(kind), str(reason))]:
                return f": {kind}, {reason}"
    return ""


def _words(name: str) -> str:
    text = re.sub(r"(?<=\d)_(?=\d)", ".", name).replace("_", " ")
    return re.sub(r"\bjob\b", "Job", text).replace("json", "JSON")


def _read(pattern: re.Pattern[str], text: str) -> tuple[tuple[str, ...], str]:
    found = pattern.fullmatch(text)
    if found is None:
        message = f"tests/contract: {text!r} does not begin as a case does; write numbers, then words"
        raise SystemExit(message)
    numbers = re.findall(_NUMBER, found["numbers"] or "")
    return tuple(number.replace("r", "R") for number in numbers), found["sentence"]


def _notes_of(test: Callable[..., Any]) -> tuple[str, ...]:
    paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(test) or "").split("\n\n")]
    notes: list[str] = []
    for text in paragraphs:
        if found := _NOTE.fullmatch(text):
            notes.append(f"**{found[1]}**: {found[2]}")
        elif notes:  # a paragraph that goes on
            notes[-1] += f" {text}"
    return tuple(notes)


def _held(found: list[Case]) -> str:
    """Return the sentences of cases; instances of one thing stand together, with that thing."""
    parts: dict[str, list[str]] = {}
    for case in found:
        parts.setdefault(case.context or case.sentence, []).append(case.sentence)
    return "; ".join(
        key if key in some else f"{', '.join(dict.fromkeys(some))} ({key})" for key, some in parts.items()
    )


def _notes(found: list[Case]) -> str:
    return " ".join(dict.fromkeys(note for case in found for note in case.notes))


def _subject(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").splitlines()[0].partition(". ")[0].rstrip(".")


def _link(module: str) -> str:
    return f"[{module.removeprefix('test_').replace('_', ' ')}](../tests/contract/{module}.py)"
