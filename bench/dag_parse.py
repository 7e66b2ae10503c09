"""What a DAG file pays to name an operator: CPU and memory of fresh processes, side by side.

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

_MEASURE = """
import json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
mebibytes = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(json.dumps([used.ru_utime + used.ru_stime, mebibytes, len(sys.modules)]))
"""

_DAG_FILES = {
    "airflow.sdk alone": "import airflow.sdk\n",
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
    """What one process used until it had read a DAG file: CPU seconds, peak memory, modules."""

    seconds: float
    mebibytes: float
    modules: int


def measure(dag_file: str, airflow_home: str) -> Cost:
    """Read a DAG file in a fresh process, with byte code in place as in production."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["AIRFLOW_HOME"] = airflow_home
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", dag_file + _MEASURE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def least(costs: list[Cost]) -> Cost:
    """Return each figure's least: what else goes on in a machine only ever adds."""
    return Cost(
        min(cost.seconds for cost in costs),
        min(cost.mebibytes for cost in costs),
        min(cost.modules for cost in costs),
    )


def compare(runs: int) -> dict[str, Cost]:
    """Measure every DAG file `runs` times, in turns: a machine's mood then hits all alike."""
    with tempfile.TemporaryDirectory() as airflow_home:
        for dag_file in _DAG_FILES.values():
            measure(dag_file, airflow_home)  # writes byte code and airflow.cfg
        found: dict[str, list[Cost]] = {name: [] for name in _DAG_FILES}
        for _ in range(runs):
            for name, dag_file in _DAG_FILES.items():
                found[name].append(measure(dag_file, airflow_home))
    return {name: least(costs) for name, costs in found.items()}


def main() -> int:
    """Print the table; tell by the exit code whether ours stays within its limits."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    costs = compare(runs)
    base = next(iter(costs.values()))
    print(f"least of {runs} fresh processes, CPU of user and system\n")
    print(f"{'':34}{'CPU s':>7}{'added':>8}{'ratio':>7}{'MiB':>8}{'added':>8}{'ratio':>7}{'modules':>9}")
    for name, cost in costs.items():
        seconds, mebibytes = cost.seconds - base.seconds, cost.mebibytes - base.mebibytes
        print(
            f"{name:34}{cost.seconds:7.3f}{seconds:8.3f}{cost.seconds / base.seconds:7.2f}"
            f"{cost.mebibytes:8.1f}{mebibytes:8.1f}{cost.mebibytes / base.mebibytes:7.2f}{cost.modules:9}"
        )
    ours = list(costs.values())[1]
    seconds, mebibytes = ours.seconds - base.seconds, ours.mebibytes - base.mebibytes
    within = seconds < MOST_ADDED_SECONDS and mebibytes < MOST_ADDED_MEBIBYTES
    limits = f"{MOST_ADDED_SECONDS} s and {MOST_ADDED_MEBIBYTES} MiB"
    print(f"\nours adds {seconds:.3f} s and {mebibytes:.1f} MiB: {'within' if within else 'above'} {limits}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
