"""Which Python files there are, and which index parses which of them."""

from __future__ import annotations

import heapq
import sysconfig
from pathlib import Path
from typing import NamedTuple


class Listed(NamedTuple):
    files: int
    size_bytes: int
    shards: int


def write_shards(folder: Path, shards: int) -> Listed:
    """Write FOLDER/shards/0.txt and so on: one path a line, about the same size in each shard."""
    sizes = {path: path.stat().st_size for path in python_files()}
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    (folder / "results").mkdir(exist_ok=True)
    for index, paths in enumerate(balanced(sizes, shards)):
        (folder / "shards" / f"{index}.txt").write_text("\n".join(map(str, paths)))
    return Listed(len(sizes), sum(sizes.values()), shards)


def python_files() -> list[Path]:
    """Return every Python source file of this interpreter: installed packages, standard library."""
    installed, standard = (Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib"))
    found = {path for root in (installed, standard) for path in root.rglob("*.py") if path.is_file()}
    # An environment's standard library lies elsewhere, with other people's packages beside it.
    return sorted(
        path for path in found if path.is_relative_to(installed) or "site-packages" not in path.parts
    )


def balanced(sizes: dict[Path, int], shards: int) -> list[list[Path]]:
    """Share files out: the largest first, each to the shard that has least so far."""
    lightest = [(0, index) for index in range(shards)]
    shared: list[list[Path]] = [[] for _ in range(shards)]
    for path in sorted(sizes, key=lambda path: (-sizes[path], path)):
        size, index = lightest[0]
        shared[index].append(path)
        heapq.heapreplace(lightest, (size + sizes[path], index))
    return shared
