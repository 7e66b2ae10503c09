"""Parse every Python source file of this installation: list them, share them out, parse, report.

The middle task is one Indexed Job of 64 indexes. Index 17 reads the list `shards/17.txt` and writes
`results/17.json`, so an index that runs twice does no harm and one that is done is not needed again.
"""

from __future__ import annotations

import re
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_batchjob import BatchJobOperator

PROGRAM = Path(__file__).parent / "python_sources" / "parse_shard.py"

with DAG(
    "parse_python_sources",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    doc_md=__doc__,
    params={
        # On a cluster: where a volume that all machines share is mounted.
        "folder": Param(f"{tempfile.gettempdir()}/python_sources", type="string"),
        "shards": Param(64, type="integer", minimum=1),
    },
) as dag:

    @task
    def list_files() -> dict[str, Any]:
        """Write the shards' lists into a folder of this run."""
        from python_sources.shards import write_shards

        context = get_current_context()
        params = context["params"]
        folder = Path(params["folder"]) / re.sub(r"[^\w-]", "_", context["run_id"])
        listed = write_shards(folder, params["shards"])
        print(f"{listed.files:,} files, {listed.size_bytes / 1e6:,.0f} MB, in {listed.shards} shards")
        return {"folder": str(folder), "shards": listed.shards}

    listed = list_files()

    # [START parse]
    parse = BatchJobOperator(
        task_id="parse",
        # The local cluster runs the command as a process. On a cluster, the image holds the program.
        image="python:3.12-slim",
        command=[sys.executable, str(PROGRAM), "{{ ti.xcom_pull('list_files')['folder'] }}"],
        completions=listed["shards"],
        parallelism=8,
        container_resources={"requests": {"cpu": "1", "memory": "512Mi"}},
        retries_per_index=2,
        deadline_seconds=600,
        retries=2,
    )
    # [END parse]

    @task
    def report(folder: str, shards: int) -> dict[str, Any]:
        """Add the shards' figures up, and draw when each ran."""
        from python_sources.report import write_report

        written = write_report(Path(folder), shards)
        print(written["sentence"])
        return written

    parse >> report(listed["folder"], listed["shards"])
