"""What a DAG author meets when a DAG with a sensor is parsed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup

from airflow_batchjob import BatchJobOperator, BatchJobSensor
from airflow_batchjob.core.errors import SpecError

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to look at": ({}, "of_task, name or label_selector"),
    "two things to look at": ({"of_task": "t", "name": "j"}, "several of them"),
    "another DAG without a run": ({"of_task": "t", "of_dag": "other"}, "of_dag='other'"),
    "a run of no task": ({"name": "j", "of_run_id": "r"}, "of_run_id='r'"),
    "no such aim": ({"of_task": "t", "until": "soon"}, "until='soon'"),
    "a percentage out of range": ({"of_task": "t", "until": "120%"}, "until='120%'"),
    "fewer than none": ({"of_task": "t", "max_failed": -1}, "max_failed=-1"),
    "a map index that is none": ({"of_task": "t", "of_map_index": "x"}, "of_map_index='x'"),
    "a flag that is text": ({"of_task": "t", "deferrable": "no"}, "deferrable='no'"),
    "a slip of the fingers": ({"of_tsk": "t"}, "Did you mean of_task=?"),
    "a slip in Airflow's own": ({"of_task": "t", "poke_intervall": 5}, "Did you mean poke_interval=?"),
}


@pytest.mark.parametrize(("given", "want"), BAD.values(), ids=BAD.keys())
def test_refuses_when_the_dag_is_parsed(given, want):
    with pytest.raises(SpecError, match=re.escape(want)):
        BatchJobSensor(task_id="s", **given)


GOOD: dict[str, dict[str, Any]] = {
    "a task by its id": {"of_task": "group.t"},
    "a task of another run": {"of_task": "t", "of_dag": "other", "of_run_id": "{{ ti.xcom_pull('x') }}"},
    "a name": {"name": "embed-3f2a"},
    "labels": {"label_selector": "team=search"},
    "a count": {"of_task": "t", "until": 5},
    "Jinja": {
        "of_task": "t",
        "until": "{{ params.u }}",
        "max_failed": "{{ params.m }}",
        "of_map_index": "{{ 1 }}",
    },
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD.keys())
def test_accepts(given):
    BatchJobSensor(task_id="s", **given)


def test_takes_the_operator_itself_right_inside_a_group_and_without_a_dependency():
    with DAG("d", schedule=None), TaskGroup("g"):
        work = BatchJobOperator(task_id="t", image="i", namespace="jobs", kubernetes_conn_id="gpu")
        half = BatchJobSensor(task_id="s", of_task=work, until="50%")

    assert (half.of_task, half.of_dag) == ("g.t", None)
    assert (half.namespace, half.kubernetes_conn_id) == ("jobs", "gpu")
    assert not half.upstream_task_ids
    assert not half.downstream_task_ids


ELSEWHERE: dict[str, dict[str, Any]] = {
    "a task that is there": {"of_task": "a"},
    "one of another DAG": {"of_task": "aa", "of_dag": "other", "of_run_id": "r"},
    "one that an older run may have had": {"of_task": "aa", "of_run_id": "r"},
    "one that is known later": {"of_task": "{{ params.task }}"},
    "a name": {"name": "aa"},
}


def dag_with(**given: Any) -> DAG:
    with DAG("typo", schedule=None) as dag:
        BatchJobSensor(task_id="s", **given)
        BatchJobOperator(task_id="a", image="i")
    return dag


@pytest.mark.parametrize("given", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_complete_dag_accepts(given):
    dag_with(**given).resolve_template_files()


def test_a_complete_dag_refuses_a_task_that_it_does_not_have():
    dag = dag_with(of_task="aa")

    with pytest.raises(SpecError, match=r"of_task='aa': there is no such task in DAG 'typo'; there are: a\."):
        dag.resolve_template_files()


def test_takes_a_mapped_operator():
    with DAG("d", schedule=None):
        work = BatchJobOperator.partial(task_id="t", image="i", kubernetes_conn_id="gpu").expand(
            completions=[1, 2]
        )
        third = BatchJobSensor(task_id="s", of_task=work, of_map_index=2)

    assert (third.of_task, third.of_map_index, third.kubernetes_conn_id) == ("t", 2, "gpu")


def test_what_is_given_wins_over_the_operators_own():
    with DAG("d", schedule=None):
        work = BatchJobOperator(task_id="t", image="i", namespace="jobs", kubernetes_conn_id="gpu")
        half = BatchJobSensor(task_id="s", of_task=work, namespace="other", kubernetes_conn_id="cpu")

    assert (half.namespace, half.kubernetes_conn_id) == ("other", "cpu")


def test_an_operator_of_another_dag_needs_its_run():
    with DAG("other", schedule=None):
        work = BatchJobOperator(task_id="t", image="i")
    with DAG("d", schedule=None), pytest.raises(SpecError, match="of_dag='other'"):
        BatchJobSensor(task_id="s", of_task=work)


POD = {"restartPolicy": "Never"}

NAMESPACES: dict[str, tuple[dict[str, Any], str | None]] = {
    "the parameter": ({"image": "i", "namespace": "n-{{ x }}"}, "n-1"),
    "the manifest": (
        {"manifest": {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"namespace": "m"}}},
        "m",
    ),
    "a variable in the manifest": (
        {
            "manifest": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  namespace: ${NS}\n",
            "variables": {"NS": "v-{{ x }}"},
        },
        "v-1",
    ),
    "neither": ({}, None),
}


@pytest.mark.parametrize(("given", "want"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_the_operator_tells_its_namespace(given, want):
    work = BatchJobOperator(task_id="t", dag=DAG("d", schedule=None), **{"image": "i", "pod": POD} | given)

    context: Any = {"x": 1}
    assert work.stated_namespace(context) == want
