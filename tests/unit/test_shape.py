"""The shape of the package: what no linter looks at."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_batchjob.core import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "airflow_batchjob"

MODULE_LINES = 300
FUNCTION_LINES = 40  # from `def` to the last statement, docstring and parameters left out
INIT_STATEMENTS = 12

FORBIDDEN_IN_CORE = {
    "airflow", "aiohttp", "asyncio", "kubernetes", "kubernetes_asyncio", "os", "pathlib",
    "random", "rich", "socket", "subprocess", "time",
}  # fmt: skip
EMPTY_WORDS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def id_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


MODULES = python_files("src")
TESTS = [path for path in python_files("tests") if path != Path(__file__)]
each_module = pytest.mark.parametrize("path", MODULES, ids=id_of)


@each_module
def test_a_module_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())

    assert lines <= MODULE_LINES, f"{id_of(path)} has {lines} lines: split it by idea"


@each_module
def test_a_function_is_short(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = {f"{node.name}, line {node.lineno}": body_lines(node) for node in functions(tree)}

    too_long = {name: lines for name, lines in found.items() if lines > FUNCTION_LINES}

    assert not too_long, f"longer than {FUNCTION_LINES} lines: split by idea"


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body alone: an operator has many parameters, a docstring and a `self.x = x` for each."""
    first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
    kept = sum(ast.unparse(it) == f"self.{name} = {name}" for it in node.body for name in names_kept(it))
    return (node.end_lineno or 0) - first.lineno + 1 - kept


def names_kept(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
        yield statement.value.id


@each_module
def test_the_first_line_says_the_idea(path: Path) -> None:
    says = ast.get_docstring(ast.parse(path.read_text())) or ""

    assert says.splitlines()[:1], f"{id_of(path)} has no docstring"
    assert says.splitlines()[0].strip()


@each_module
def test_a_name_says_what_is_inside(path: Path) -> None:
    words = set(path.stem.split("_")) | set(path.parent.name.split("_"))

    assert not words & EMPTY_WORDS


@each_module
def test_nothing_is_left_to_do(path: Path) -> None:
    left = re.findall(r"(?i)\b(?:todo|fixme|xxx)\b|raise NotImplementedError", path.read_text())

    assert not left


@pytest.mark.parametrize("path", python_files("src/airflow_batchjob/core"), ids=id_of)
def test_the_core_imports_nothing_that_acts(path: Path) -> None:
    assert not {name.partition(".")[0] for name in imports(path)} & FORBIDDEN_IN_CORE


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "compat.py"], ids=id_of)
def test_only_compat_asks_for_airflows_version(path: Path) -> None:
    asks = re.findall(
        r"AIRFLOW_V_|airflow\.version|airflow import __version__|airflow\.__version__", path.read_text()
    )

    assert not asks, "ask compat.py for what the version means"


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=id_of)
def test_a_package_is_light(path: Path) -> None:
    statements = ast.parse(path.read_text()).body

    assert len(statements) <= INIT_STATEMENTS
    made = {node.name for node in statements if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert made <= {"__getattr__", "__dir__"}, "give it a module of its own"


ERRORS = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_our_errors_are_nobody_elses(cls: type[Exception]) -> None:
    families = {parent.__module__ for parent in cls.__mro__}

    assert families == {"airflow_batchjob.core.errors", "builtins"}
    assert cls.__mro__[-4:] == (errors.BatchJobError, Exception, BaseException, object)


@each_module
def test_every_error_has_its_place_in_the_tree(path: Path) -> None:
    if path.name == "errors.py":
        return

    tree = ast.parse(path.read_text())
    raised = [
        node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    ]

    # The local cluster shares nothing, its errors are its own.
    assert not raised or "local" in path.parts, f"{raised} belong into core/errors.py"


@pytest.mark.parametrize("path", TESTS, ids=id_of)
def test_tests_leave_our_own_methods_alone(path: Path) -> None:
    patched = re.findall(r"""patch(?:\.object)?\(\s*["']airflow_batchjob[^"']*""", path.read_text())

    assert not patched, "drive it through the protocol or the local cluster"


RUN_NOT_IMPORTED = {"__main__"}


@pytest.mark.parametrize("path", [path for path in MODULES if path.stem not in RUN_NOT_IMPORTED], ids=id_of)
def test_every_module_is_imported_without_a_warning(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")

    assert importlib.import_module(dotted).__name__ == dotted
