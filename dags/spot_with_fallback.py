"""Spot machines as long as they last, on-demand machines for what is left.

On the local cluster: `batchjob local start --spot-loss-seconds 20`.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator, SpotPolicy

with DAG(
    "spot_with_fallback",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    doc_md=__doc__,
) as dag:
    # [START spot]
    BatchJobOperator(
        task_id="simulate",
        image="busybox:1.37",
        command=["sh", "-c", "echo shard $JOB_COMPLETION_INDEX on $NODE; sleep 1"],
        env={"NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}},
        completions=12,
        parallelism=6,
        capacity=SpotPolicy(max_losses_per_index=3),  # spot, then on-demand
        pending_seconds=300,  # no spot machine for five minutes is a reason, too
        retries=2,  # the last one begins on demand
    )
    # [END spot]
