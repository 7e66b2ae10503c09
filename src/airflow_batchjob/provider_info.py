"""What Airflow's provider manager is told about this package."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the facts of `provider_info.schema.json`."""
    return {
        "package-name": "airflow-batchjob",
        "name": "Batch Job",
        "description": "Kubernetes Indexed Jobs as Airflow tasks.",
        "versions": ["0.1.0"],
    }
