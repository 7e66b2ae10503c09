"""`make soak`: many Jobs through all kinds of faults.

SEED=…, JOBS=… or SEEDS=… (how many in a row); CLUSTER=1.34 or 1.37: through real Kubernetes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import tests.conftest  # noqa: F401  Airflow's folder, before Airflow is imported
from airflow_batchjob.local.reach import Reach
from tests.cluster.build import MissingToolError
from tests.cluster.cluster import ClusterInUseError
from tests.cluster.opening import LOCAL, opened
from tests.cluster.processes import ServerDiedError
from tests.faults.soak import soak


def main() -> int:
    """Run one soak or several; 0: nothing was wrong."""
    first, jobs = int(os.environ.get("SEED") or 1), int(os.environ.get("JOBS") or 1000)
    asked = os.environ.get("CLUSTER") or LOCAL
    bad = 0
    for seed in range(first, first + int(os.environ.get("SEEDS") or 1)):
        folder = Path(tempfile.mkdtemp(prefix=f"soak-{seed}-"))
        with opened(asked) as kubeconfig:
            reach = Reach.by_kubeconfig(kubeconfig)
            outcome = asyncio.run(soak(seed, jobs, reach, folder, is_local=asked == LOCAL))
        print(f"{asked}, {outcome}", flush=True)
        for fault, times in sorted(outcome.faults.items()):
            print(f"  {times:6} {fault}")
        for problem in outcome.problems:
            print(f"  WRONG: {problem}", flush=True)
        if outcome.problems:
            bad += 1
            print(f"  logs and records: {folder}")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MissingToolError, ClusterInUseError, ServerDiedError) as reason:
        print(reason, file=sys.stderr)
        sys.exit(2)
