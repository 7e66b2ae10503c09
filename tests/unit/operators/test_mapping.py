"""Mapped tasks are checked when the DAG is parsed, as far as their arguments are known then."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.operators.batchjob import BatchJobOperator


@pytest.fixture
def dag():
    with DAG("mapped", schedule=None) as dag:
        yield dag


WRONG_PARTIALS = {
    "another operator's name": ({"cmds": ["x"]}, "Write command="),
    "a choice that there is none of": ({"on_finish": "burn"}, "on_finish"),
    "a flag that is text": ({"deferrable": "yes"}, "deferrable"),
    "a template where none is rendered": ({"deadline_seconds": "{{ params.n }}"}, "deadline_seconds"),
}


@pytest.mark.parametrize(("given", "told"), WRONG_PARTIALS.values(), ids=WRONG_PARTIALS.keys())
def test_partial_refuses(dag, given, told):
    with pytest.raises(SpecError, match=told):
        BatchJobOperator.partial(task_id="t", image="i", **given)


WRONG_EXPANSIONS = {
    "nothing to run": ({}, {"name": ["a", "b"]}, "image"),
    "one of the values": ({"image": "i"}, {"completions": [1, -1]}, "completions"),
    "a value that does not go with what is common": (
        {"image": "i", "completions": 2},
        {"min_succeeded": [1, 3]},
        "min_succeeded",
    ),
    "another operator's name": ({"image": "i"}, {"env_vars": [{"A": "b"}]}, "Write env="),
}


@pytest.mark.parametrize(("common", "mapped", "told"), WRONG_EXPANSIONS.values(), ids=WRONG_EXPANSIONS.keys())
def test_expand_refuses(dag, common, mapped, told):
    with pytest.raises((SpecError, TypeError), match=told):
        BatchJobOperator.partial(task_id="t", **common).expand(**mapped)


def test_expand_kwargs_refuses_one_of_many(dag):
    cases = [{"completions": 1}, {"completions": 1, "min_succeeded": 2}]
    with pytest.raises(SpecError, match="min_succeeded"):
        BatchJobOperator.partial(task_id="t", image="i").expand_kwargs(cases)


def test_a_template_is_left_for_later(dag):
    mapped = BatchJobOperator.partial(task_id="t", image="{{ params.image }}", min_succeeded="{{ params.n }}")

    assert mapped.expand(completions=[1, 2]).task_id == "t"


def output(dag):
    return (dag.task_dict.get("first") or BaseOperator(task_id="first", dag=dag)).output


def test_another_tasks_output_is_left_for_later(dag):
    mapped = BatchJobOperator.partial(task_id="t", image="i").expand(command=output(dag))

    assert mapped.upstream_task_ids == {"first"}
    BatchJobOperator.partial(task_id="u").expand(image=output(dag), retries_per_index=output(dag))
    BatchJobOperator.partial(task_id="v").expand_kwargs(output(dag))


def test_what_the_dags_defaults_give_is_not_missed():
    with DAG("mapped", schedule=None, default_args={"image": "i", "retries_per_index": 1}):
        BatchJobOperator.partial(task_id="t").expand(name=["a", "b"])


def test_of_an_operator_that_inherits_only_its_names_are_checked(dag):
    class Ours(BatchJobOperator):
        def __init__(self, *, shards: int, **kwargs):
            super().__init__(image="i", completions=shards, **kwargs)

    assert Ours.partial(task_id="t").expand(shards=[1, 2]).operator_class is Ours
    with pytest.raises(SpecError, match="Write command="):
        Ours.partial(task_id="u", shards=1, cmds=["x"])


def test_a_task_itself_has_no_partial(dag):
    task = BatchJobOperator(task_id="t", image="i")

    with pytest.raises(TypeError):
        task.partial(task_id="u")


def test_a_slip_of_the_fingers_is_told_in_partial_and_in_expand():
    with DAG("d", schedule=None):
        with pytest.raises(SpecError, match=r"paralelism=2.*Did you mean parallelism="):
            BatchJobOperator.partial(task_id="t", image="i", paralelism=2)
        with pytest.raises(SpecError, match=r"complitions=.*Did you mean completions="):
            BatchJobOperator.partial(task_id="u", image="i").expand(complitions=[1, 2])
