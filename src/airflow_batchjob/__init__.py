"""Batches of containers as Airflow tasks: Kubernetes Indexed Jobs, submitted once, awaited without a worker.

Names are imported when first used (PEP 562), so that importing this package costs a DAG file nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_batchjob.core.capacity.capacity import OnDemand, SpotPolicy
    from airflow_batchjob.core.errors import (
        ApiConflictError,
        ApiError,
        ApiRefusedError,
        ApiUnavailableError,
        BatchJobError,
        DeadlineError,
        ExpiredError,
        FailJobRuleError,
        ForeignJobError,
        JobFailedError,
        NotFoundError,
        OtherClusterError,
        OutcomeUnknownError,
        SpecError,
        StockOutError,
        StoppedError,
        ThresholdNotMetError,
    )
    from airflow_batchjob.core.indexes import expand_indexes
    from airflow_batchjob.core.sharing.allocation import Machine
    from airflow_batchjob.operators.batchjob import BatchJobOperator
    from airflow_batchjob.sensors.batchjob import BatchJobSensor

__all__ = [
    "ApiConflictError",
    "ApiError",
    "ApiRefusedError",
    "ApiUnavailableError",
    "BatchJobError",
    "BatchJobOperator",
    "BatchJobSensor",
    "DeadlineError",
    "ExpiredError",
    "FailJobRuleError",
    "ForeignJobError",
    "JobFailedError",
    "Machine",
    "NotFoundError",
    "OnDemand",
    "OtherClusterError",
    "OutcomeUnknownError",
    "SpecError",
    "SpotPolicy",
    "StockOutError",
    "StoppedError",
    "ThresholdNotMetError",
    "expand_indexes",
]

_HOMES = {
    "BatchJobOperator": "airflow_batchjob.operators.batchjob",
    "BatchJobSensor": "airflow_batchjob.sensors.batchjob",
    "Machine": "airflow_batchjob.core.sharing.allocation",
    "OnDemand": "airflow_batchjob.core.capacity.capacity",
    "SpotPolicy": "airflow_batchjob.core.capacity.capacity",
    "expand_indexes": "airflow_batchjob.core.indexes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES.get(name, "airflow_batchjob.core.errors")), name)


def __dir__() -> list[str]:
    return __all__
