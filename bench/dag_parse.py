"""What a DAG file pays to name an operator: CPU and memory of fresh processes, side by side.

Measured from where `airflow.sdk` is imported and an empty DAG stands, which every DAG file pays for.

    python bench/dag_parse.py [RUNS]

Exit code 1: ours costs more than it may.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

MOST_ADDED_SECONDS = 0.05
MOST_ADDED_MEBIBYTES = 5.0

_BASE = """
import resource, sys
import airflow.sdk

def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    mebibytes = found.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return [found.ru_utime + found.ru_stime, mebibytes, len(sys.modules)]

alone = used()
with airflow.sdk.DAG("empty", schedule=None):
    pass
base = used()
"""

_MEASURE = """
import json
print(json.dumps([alone, base, used()]))
"""

_DAG_FILES = {
    "and BatchJobOperator in a DAG": """
from airflow.sdk import DAG
from airflow_batchjob import BatchJobOperator, Machine

with DAG("bench", schedule=None):
    BatchJobOperator(
        task_id="work",
        image="registry.example.com/work:1",
        command=["work", "--day", "{{ ds }}"],
        completions=2000,
        machine=Machine(cpu=20, memory="101Gi", gpus=1),
        min_succeeded="99%",
    )
""",
    "and the provider's Job operator": """
from airflow.sdk import DAG
from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator

with DAG("bench", schedule=None):
    KubernetesJobOperator(
        task_id="work",
        name="work",
        image="registry.example.com/work:1",
        cmds=["work", "--day", "{{ ds }}"],
        completions=2000,
    )
""",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process has used: CPU seconds, peak memory, modules."""

    seconds: float
    mebibytes: float
    modules: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: after `import airflow.sdk`, with an empty DAG, and after the rest of the DAG file."""

    alone: Cost
    base: Cost
    end: Cost

    @property
    def added(self) -> Cost:
        base, end = self.base, self.end
        return Cost(end.seconds - base.seconds, end.mebibytes - base.mebibytes, end.modules - base.modules)


def measure(dag_file: str, airflow_home: str) -> Measured:
    """Read a DAG file in a fresh process, with byte code in place as in production."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["AIRFLOW_HOME"] = airflow_home
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BASE + dag_file + _MEASURE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    alone, base, end = json.loads(done.stdout.splitlines()[-1])
    return Measured(Cost(*alone), Cost(*base), Cost(*end))


def compare(runs: int) -> dict[str, Measured]:
    """Measure every DAG file `runs` times, in turns, and return the run that added least CPU.

    What else goes on in a machine only ever adds.
    """
    with tempfile.TemporaryDirectory() as airflow_home:
        for dag_file in _DAG_FILES.values():
            measure(dag_file, airflow_home)  # writes byte code and airflow.cfg
        found: dict[str, list[Measured]] = {name: [] for name in _DAG_FILES}
        for _ in range(runs):
            for name, dag_file in _DAG_FILES.items():
                found[name].append(measure(dag_file, airflow_home))
    return {name: min(those, key=lambda one: one.added.seconds) for name, those in found.items()}


def main() -> int:
    """Print the table; tell by the exit code whether ours stays within its limits."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    measured = compare(runs)
    first = next(iter(measured.values()))
    print(f"least of {runs} fresh processes, CPU of user and system\n")
    print(f"{'':34}{'CPU s':>7}{'added':>8}{'ratio':>7}{'MiB':>8}{'added':>8}{'ratio':>7}{'modules':>9}")
    print(_row("airflow.sdk alone", Measured(first.alone, first.base, first.alone)))
    print(_row("and an empty DAG", Measured(first.alone, first.base, first.base)))
    for name, one in measured.items():
        print(_row(name, one))
    ours = first.added
    within = ours.seconds < MOST_ADDED_SECONDS and ours.mebibytes < MOST_ADDED_MEBIBYTES
    limits = f"{MOST_ADDED_SECONDS} s and {MOST_ADDED_MEBIBYTES} MiB"
    said = "within" if within else "above"
    print(f"\nours adds {ours.seconds:.3f} s and {ours.mebibytes:.1f} MiB: {said} {limits}")
    return 0 if within else 1


def _row(name: str, one: Measured) -> str:
    end, added = one.end, one.added
    return (
        f"{name:34}{end.seconds:7.3f}{added.seconds:8.3f}{end.seconds / one.base.seconds:7.2f}"
        f"{end.mebibytes:8.1f}{added.mebibytes:8.1f}{end.mebibytes / one.base.mebibytes:7.2f}{end.modules:9}"
    )


if __name__ == "__main__":
    sys.exit(main())
