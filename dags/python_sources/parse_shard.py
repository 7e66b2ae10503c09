"""Parse the Python files of one shard: what the container of each index runs.

Reads FOLDER/shards/INDEX.txt and writes FOLDER/results/INDEX.json. It needs nothing but Python, so
any Python image can run it.

An index may run more than once: a machine is lost, an answer does not arrive. So the result goes to
a file of its own first and is put in place at the end, whole: a second run replaces like by like,
and nobody ever reads half of one. There is no handler for SIGTERM: the process then ends with 143,
and Kubernetes runs the index again. (Ending with 0 would make it count as done.)
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

PARTS_OF_A_STATEMENT = ("body", "orelse", "finalbody", "handlers", "cases")


def main() -> None:
    """Parse the shard that JOB_COMPLETION_INDEX names, in the folder that the argument names."""
    folder, index = Path(sys.argv[1]), int(os.environ["JOB_COMPLETION_INDEX"])
    gc.disable()  # a tree has no cycles; looking for them takes half of the time
    warnings.simplefilter("ignore")  # odd escapes are their authors' business
    started = time.time()
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    broken: dict[str, str] = {}
    for name in (folder / "shards" / f"{index}.txt").read_text().splitlines():
        try:
            packages[package_of(Path(name))].update(figures_of(Path(name)))
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            # Tests of parsers bring files that are wrong on purpose. That is something to report
            # about the input. It is no failure of this shard: to run it again would not mend the file.
            broken[name] = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
    result = {
        "index": index,
        "node": os.environ.get("NODE_NAME", ""),
        "started": started,
        "ended": time.time(),
        "packages": packages,
        "broken": broken,
    }
    put_in_place(folder / "results" / f"{index}.json", json.dumps(result))
    files = sum(figures["files"] for figures in packages.values())
    print(f"shard {index}: {files} files parsed, {len(broken)} are broken")


def figures_of(path: Path) -> Counter[str]:
    """Return how many lines, functions, classes and statements a file has.

    Raises:
        SyntaxError: The file is not Python, at least not of this version.
        ValueError: It has null bytes.
    """
    source = path.read_bytes()
    figures = Counter(files=1, bytes=len(source), lines=source.count(b"\n"))
    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        for part in PARTS_OF_A_STATEMENT:
            statements = getattr(node, part, None)
            if isinstance(statements, list):
                figures["statements"] += len(statements)
                left += statements
        figures["functions"] += isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        figures["classes"] += isinstance(node, ast.ClassDef)
    return figures


def package_of(path: Path) -> str:
    """Return which installed package a file belongs to."""
    if "site-packages" not in path.parts:
        return "standard library"
    return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")


# [START in_place]
def put_in_place(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    half = path.with_suffix(f".{os.getpid()}.half")
    half.write_text(text)
    half.replace(path)


# [END in_place]


if __name__ == "__main__":
    main()
