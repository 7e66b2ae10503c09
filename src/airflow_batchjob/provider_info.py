"""What Airflow's provider manager is told about this package.

The connection type is the Kubernetes provider's own `kubernetes`; it is used here, not redefined.
"""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Batch Job"


def get_provider_info() -> dict[str, Any]:
    """Return the facts of `provider_info.schema.json`."""
    return {
        "package-name": "airflow-batchjob",
        "name": _INTEGRATION,
        "description": "Kubernetes Indexed Jobs as Airflow tasks.",
        "versions": ["0.1.0"],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://kubernetes.io/docs/concepts/workloads/controllers/job/",
                "tags": ["software"],
            }
        ],
        "operators": [_modules("airflow_batchjob.operators.batchjob")],
        "sensors": [_modules("airflow_batchjob.sensors.batchjob")],
        "hooks": [_modules("airflow_batchjob.hooks.batchjob")],
        "triggers": [_modules("airflow_batchjob.triggers.batchjob", "airflow_batchjob.triggers.sensor")],
        "config": {
            "batchjob": {
                "description": "Kubernetes Jobs submitted by BatchJobOperator.",
                "options": {
                    "instance": _option(
                        "The name of this Airflow among all that use a cluster. Jobs of another\n"
                        "instance are never touched. Where it is empty, the base URL of the API server\n"
                        "stands in for it, if that is not on this machine.\n",
                        example="production",
                    ),
                    "seconds_before_deferring": _option(
                        "For so long a deferrable task waits in the worker: a Job that ends meanwhile\n"
                        "needs no triggerer. Where it is empty, 5; 0: defer at once.\n",
                        example="5",
                    ),
                    "defaults": _option(
                        "Machines by name, as JSON. It holds for connections whose extra has nothing\n"
                        "under ``batchjob``.\n",
                        example='{"machines": {"large": {"cpu": 20, "memory": "101Gi", "gpus": 1}}}',
                    ),
                },
            }
        },
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}


def _option(description: str, *, example: str) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": "string",
        "example": example,
        "default": "",
    }
