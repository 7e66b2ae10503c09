"""`make test-cluster`: everything that runs on clusters, on each of them, and one table at the end."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.build import VERSIONS, build, build_kwok
from tests.cluster.cluster import require_root_linux
from tests.cluster.tools import provide

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "cluster"
SUITES = ("tests/contract", "tests/real", "tests/retries", "tests/spot")
LOCAL = "local"
MARKS = {"passed": "ok", "again": "ok, 2nd", "failed": "FAILED", "error": "ERROR", "skipped": "-"}
ABSENT = "."  # not collected, or the run broke off
MOST_AGAIN = 5
"""So many failures on a real cluster are tried once more: kubelets and controllers share two cores with the
tests, and what they take their time for is told apart from what they do not do. The table says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One suite run: how each case ended."""

    cluster: str
    exit_code: int
    outcomes: dict[str, str]

    def names(self, *ended: str) -> list[str]:
        """Return the cases that ended so."""
        return [name for name, how in self.outcomes.items() if how in ended]

    def with_second(self, second: Run) -> Run:
        """Return both runs as one, where `second` has tried again what failed in this."""
        passed = dict.fromkeys(second.names("passed"), "again")
        return Run(
            cluster=self.cluster,
            exit_code=second.exit_code,
            outcomes=self.outcomes | second.outcomes | passed,
        )


def run_all() -> int:
    """Provide, build, run on each cluster; return an exit code.

    Raises:
        MissingToolError: Something is missing that cannot be had here.
    """
    parts: list[tuple[str, float]] = []
    require_root_linux()
    with _timed(parts, "tools"):
        provide()
    for version in VERSIONS:
        with _timed(parts, f"build {version}"):
            build(version)
    with _timed(parts, "build kwok"):
        build_kwok()
    runs = []
    for cluster in (LOCAL, *VERSIONS):
        with _timed(parts, f"tests on {cluster}"):
            runs.append(_run(cluster))
    print(table(runs))
    for name, seconds in parts:
        print(f"{name}: {seconds:.0f} s")
    bad = [run.cluster for run in runs if run.exit_code]
    ended = f"failed on {', '.join(bad)}" if bad else "passed"
    for run in runs:
        if again := run.names("again"):
            print(f"{run.cluster}: passed at the second attempt only: {', '.join(again)}")
    print(f"test-cluster: {ended} in {sum(seconds for _, seconds in parts):.0f} s")
    return 1 if bad else 0


class _timed:  # noqa: N801  used as a statement
    def __init__(self, parts: list[tuple[str, float]], name: str) -> None:
        self._parts, self._name = parts, name

    def __enter__(self) -> None:
        self._began = time.monotonic()
        print(f"== {self._name}", flush=True)

    def __exit__(self, *_: object) -> None:
        seconds = time.monotonic() - self._began
        self._parts.append((self._name, seconds))
        print(f"== {self._name}: {seconds:.0f} s", flush=True)


def _run(cluster: str) -> Run:
    first = _pytest(cluster, RESULTS / f"{cluster}.xml")
    failed = first.names("failed", "error")
    if cluster == LOCAL or first.exit_code != pytest.ExitCode.TESTS_FAILED or len(failed) > MOST_AGAIN:
        return first
    print(f"== once more on {cluster}: {', '.join(failed)}", flush=True)
    return first.with_second(_pytest(cluster, RESULTS / f"{cluster}-again.xml", "--last-failed"))


def _pytest(cluster: str, report: Path, *options: str) -> Run:
    RESULTS.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", *SUITES, "-q", f"--cluster={cluster}", f"--junitxml={report}",
            "-o", f"cache_dir={RESULTS / f'cache-{cluster}'}", *options,
        ],
        cwd=ROOT, check=False,
    )  # fmt: skip
    return Run(
        cluster=cluster, exit_code=done.returncode, outcomes=read_outcomes(report) if report.exists() else {}
    )


def read_outcomes(report: Path) -> dict[str, str]:
    """Return how each case of a JUnit report ended: "passed", "failed", "error" or "skipped"."""
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        ended = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        outcomes[name] = {"failure": "failed"}.get(ended, ended)
    return outcomes


def table(runs: list[Run]) -> str:
    """Return the table: a line for each case, a column for each cluster."""
    cases = list(dict.fromkeys(case for run in runs for case in run.outcomes))
    width = max((len(case) for case in cases), default=4)
    head = f"{'case':<{width}}" + "".join(f"  {run.cluster:>7}" for run in runs)
    lines = [
        f"{case:<{width}}" + "".join(f"  {MARKS.get(run.outcomes.get(case, ''), ABSENT):>7}" for run in runs)
        for case in cases
    ]
    totals = f"{f'{len(cases)} cases, passed':<{width}}" + "".join(
        f"  {len(run.names('passed', 'again')):>7}" for run in runs
    )
    return "\n".join([head, *lines, head, totals])
