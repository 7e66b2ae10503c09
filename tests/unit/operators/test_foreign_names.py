"""Whoever comes from another operator is told what to write here."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.operators.batchjob import BatchJobOperator
from airflow_batchjob.operators.foreign_names import FOREIGN_NAMES

LATER = {"queue_name"}
"""Names that mean the same there and here, and come with a later release."""


def named(cls: Any) -> set[str]:
    return set(inspect.signature(inspect.unwrap(cls.__init__)).parameters)


def test_every_argument_of_the_providers_operators_has_an_answer():
    from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
    from airflow.providers.cncf.kubernetes.operators.kueue import KubernetesStartKueueJobOperator
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    theirs = (
        named(KubernetesJobOperator) | named(KubernetesPodOperator) | named(KubernetesStartKueueJobOperator)
    )

    assert theirs - named(BaseOperator) - named(BatchJobOperator) - FOREIGN_NAMES.keys() == LATER


def test_no_name_of_ours_is_called_foreign():
    assert not FOREIGN_NAMES.keys() & named(BatchJobOperator)


def test_all_foreign_names_are_told_at_once_with_ours():
    with pytest.raises(SpecError) as told:
        BatchJobOperator(task_id="t", image="i", cmds=["x"], env_vars={"A": "b"})

    assert [problem.field for problem in told.value.problems] == ["cmds", "env_vars"]
    assert "Write command=" in str(told.value)
    assert "Write env=" in str(told.value)


def test_in_default_args_they_are_a_warning():
    shared = {"get_logs": True, "retries": 1}
    with (
        DAG("d", schedule=None, default_args=shared),
        pytest.warns(UserWarning, match=r"'t'.*get_logs.*write logs="),
    ):
        task = BatchJobOperator(task_id="t", image="i")

    assert task.retries == 1


def test_an_unknown_name_is_an_error():
    with pytest.raises(SpecError, match="no_such_parameter=1: there is no such argument"):
        BatchJobOperator(task_id="t", image="i", no_such_parameter=1)
