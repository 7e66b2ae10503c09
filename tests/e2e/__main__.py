"""All scenarios, or the essential ones, on each Airflow and database: `python -m tests.e2e [PART …]`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.conftest import ROOT
from tests.e2e.environments import NEWEST, OLDEST, prepare
from tests.e2e.postgres import MissingPostgresError, install_postgres

PART_SECONDS = 1800


@dataclass(frozen=True)
class Part:
    """One Airflow on one database, and which scenarios run there."""

    version: str
    database: str
    chosen: tuple[str, ...] = ()


PARTS = {
    "newest": Part(NEWEST, "postgresql"),
    "oldest": Part(OLDEST, "sqlite", ("-m", "essential")),
}


def main(arguments: list[str]) -> int:
    """Run the parts that are named, else all; words from the first with a dash on go to pytest."""
    cut = next((at for at, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, words = arguments[:cut] or list(PARTS), arguments[cut:]
    if unknown := [name for name in names if name not in PARTS]:
        print(f"e2e: no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
        return 2
    try:
        install_postgres()
    except MissingPostgresError as reason:
        print(f"e2e: {reason}")
        return 1
    return max(run(name, PARTS[name], words) for name in names)


def run(name: str, part: Part, words: list[str]) -> int:
    """Set up one part, run its scenarios, and say how long each took; return pytest's exit code."""
    started = time.monotonic()
    prepare(part.version)
    ready = time.monotonic()
    command = [sys.executable, "-m", "pytest", "tests/e2e", "-v", "--durations=0", "--durations-min=5"]
    code = subprocess.run(
        [*command, *part.chosen, *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, "BATCHJOB_E2E": f"{part.version} {part.database}"},
        timeout=PART_SECONDS,
    ).returncode
    print(
        f"e2e {name}: {'failed' if code else 'passed'}; set-up {ready - started:.0f} s, "
        f"scenarios {time.monotonic() - ready:.0f} s",
        flush=True,
    )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
