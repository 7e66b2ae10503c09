"""Shards on machines that are taken away, and two of them with broken inputs: a retry runs what is left.

The first try loses machines, moves to on-demand when it loses too many, and fails with two shards. Their
inputs are mended, and the second try runs these two alone. What was done stays done.
"""

from __future__ import annotations

import re
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_batchjob import BatchJobOperator, SpotPolicy

PROGRAM = Path(__file__).parent / "spot_shards" / "work.py"


def mend_inputs(context: Any) -> None:
    """Mend what is broken before the next try."""
    from spot_shards.inputs import mend

    folder = context["ti"].xcom_pull(task_ids="write_inputs")["folder"]
    print(f"broken inputs that are mended now: {mend(Path(folder))}")


with DAG(
    "shards_on_spot",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    doc_md=__doc__,
    params={
        "folder": Param(f"{tempfile.gettempdir()}/shards_on_spot", type="string"),
        "shards": Param(24, type="integer", minimum=1),
    },
) as dag:

    @task
    def write_inputs() -> dict[str, Any]:
        """Write the shards' inputs into a folder of this run."""
        from spot_shards.inputs import write_shards

        context = get_current_context()
        folder = Path(context["params"]["folder"]) / re.sub(r"[^\w-]", "_", context["run_id"])
        write_shards(folder, context["params"]["shards"])
        return {"folder": str(folder), "shards": context["params"]["shards"]}

    inputs = write_inputs()

    # [START work]
    work = BatchJobOperator(
        task_id="work",
        image="python:3.12-slim",
        command=[sys.executable, str(PROGRAM), "{{ ti.xcom_pull('write_inputs')['folder'] }}"],
        env={"NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}},
        completions=inputs["shards"],
        parallelism=6,
        container_resources={"requests": {"cpu": "1", "memory": "64Mi"}},
        capacity=SpotPolicy(max_losses_per_index=1, fallback_max_running=2),
        pending_seconds=20,
        retries=1,
        retry_delay=timedelta(seconds=1),
        on_retry_callback=mend_inputs,
    )
    # [END work]

    @task
    def count(folder: str) -> int:
        """Add the results up."""
        results = [int(path.read_text()) for path in (Path(folder) / "results").glob("*.txt")]
        print(f"{len(results)} results, {sum(results)} in total")
        return sum(results)

    work >> count(inputs["folder"])
