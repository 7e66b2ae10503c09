"""What a DAG author meets when the DAG is parsed."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk import DAG, BaseOperator, task
from airflow.serialization import serialized_objects

from airflow_batchjob import BatchJobOperator, BatchJobSensor, Machine
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.identity.identity import Again

BOTH = pytest.mark.parametrize("cls", [BatchJobOperator, BatchJobSensor], ids=lambda cls: cls.__name__)

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: embed
spec:
  parallelism: 7
  completions: 50
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example.com/embed:1
        command: [embed]
"""


def rendered(work: BatchJobOperator, **context: Any) -> None:
    work.render_template_fields(cast("Any", context), work.dag.get_template_env())


def documented(cls: type) -> dict[str, str]:
    _, _, args = (inspect.getdoc(cls) or "").partition("\nArgs:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", args, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


@BOTH
def test_every_parameter_is_documented(cls):
    asked = set(inspect.signature(inspect.unwrap(cls.__init__)).parameters) - {"self"}
    assert set(documented(cls)) == asked


@BOTH
def test_what_is_templated_says_so_and_nothing_else_does(cls):
    said = {name for name, text in documented(cls).items() if text.endswith("(templated)")}
    assert said == set(cls.template_fields)


def test_inherits_from_airflows_base_alone():
    ours = [cls for cls in BatchJobOperator.__mro__ if cls.__module__.startswith("airflow_batchjob")]
    assert ours == [BatchJobOperator]
    assert BatchJobOperator.__mro__[1] is BaseOperator


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no image and no manifest": ({}, "image"),
    "a quantity that is none": (
        {"image": "i", "container_resources": {"limits": {"memory": "2Gb"}}},
        "2Gb",
    ),
    "a machine beside resources": (
        {"image": "i", "container_resources": {"limits": {"cpu": 1}}, "machine": "large"},
        "machine",
    ),
    "a percentage out of range": (
        {"image": "i", "completions": 5, "min_succeeded": "101%"},
        "min_succeeded='101%'",
    ),
    "a fuse that fires too early": (
        {"image": "i", "completions": 100, "max_failed_indexes": 0, "min_succeeded": "90%"},
        "max_failed_indexes=0",
    ),
    "more needed than there are": ({"image": "i", "completions": 5, "min_succeeded": 6}, "min_succeeded=6"),
    "text that is not YAML": ({"manifest": "kind: Job\n\tspec: x\n"}, "manifest"),
    "a list of manifests": ({"manifest": "- kind: Job\n- kind: Job\n"}, "manifest"),
    "another kind": ({"manifest": {"apiVersion": "v1", "kind": "Pod"}}, "kind"),
    "a missing variable": ({"manifest": JOB.replace("embed:1", "embed:${TAG}")}, "TAG"),
    "a budget per index on a Job without indexes": (
        {"manifest": JOB.replace("completionMode: Indexed", ""), "retries_per_index": 1},
        "completionMode",
    ),
    "no such choice": ({"image": "i", "on_finish": "remove"}, "on_finish='remove'"),
    "no such choice on a retry": ({"image": "i", "on_retry": "some"}, "on_retry='some'"),
    "logs of nothing known": ({"image": "i", "logs": "verbose"}, "logs='verbose'"),
    "log containers as text": ({"image": "i", "log_containers": "main"}, "log_containers='main'"),
    "a flag that is text": ({"image": "i", "deferrable": "yes"}, "deferrable='yes'"),
    "Jinja where nothing renders it": (
        {"image": "i", "retries_per_index": "{{ params.n }}"},
        "not templated",
    ),
    "an empty connection": ({"image": "i", "kubernetes_conn_id": ""}, "kubernetes_conn_id=''"),
    "skip for many": ({"image": "i", "completions": 2, "exit_codes": {"skip": [9]}}, "skip"),
}


@pytest.mark.parametrize(("given", "want"), BAD.values(), ids=BAD.keys())
def test_refuses_when_the_dag_is_parsed(given, want):
    with pytest.raises(SpecError, match=re.escape(want)):
        BatchJobOperator(task_id="t", **given)


def test_tells_all_problems_at_once():
    with pytest.raises(SpecError) as told:
        BatchJobOperator(task_id="t", image="i", completions=-1, on_finish="x", logs="y", name="")

    assert {problem.field for problem in told.value.problems} >= {
        "completions",
        "on_finish",
        "logs",
        "name",
    }


NOWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "a slip of the fingers": (
        {"complitions": 3},
        "complitions=3: there is no such argument. Did you mean completions=?",
    ),
    "a slip in Airflow's own": ({"retry_dely": 3}, "Did you mean retry_delay=?"),
    "nothing like it": ({"zzzzz": 1}, "zzzzz=1: there is no such argument. Leave it out"),
}


@pytest.mark.parametrize(("given", "want"), NOWHERE.values(), ids=NOWHERE.keys())
def test_names_what_was_probably_meant(given, want):
    with pytest.raises(SpecError, match=re.escape(want)):
        BatchJobOperator(task_id="t", image="i", **given)


def test_names_all_unknown_arguments():
    with pytest.raises(SpecError) as told:
        BatchJobOperator(task_id="t", image="i", complitions=3, paralelism=2)

    assert [problem.field for problem in told.value.problems] == ["complitions", "paralelism"]


def test_a_class_that_inherits_may_have_arguments_of_its_own():
    class Ours(BatchJobOperator):
        def __init__(self, *, team: str, **kwargs: Any) -> None:
            super().__init__(labels={"team": team}, **kwargs)

    assert Ours(task_id="t", image="i", team="search", retries=2).labels == {"team": "search"}


GOOD: dict[str, dict[str, Any]] = {
    "an image alone": {"image": "i"},
    "a manifest's text": {"manifest": JOB},
    "a manifest with a number of its own text": {"manifest": JOB, "completions": "10"},
    "Jinja in every number": {
        "image": "i",
        "completions": "{{ params.n }}",
        "parallelism": "{{ params.p }}",
        "max_failed_indexes": "{{ params.f }}%",
        "min_succeeded": "{{ params.m }}",
    },
    "Jinja in a manifest's text": {"manifest": JOB.replace("50", "{{ params.n }}")},
    "a manifest that is all Jinja": {"manifest": "{{ var.value.manifest }}"},
    "a name that is looked up later": {"image": "i", "machine": "large"},
    "no TTL": {"image": "i", "ttl_seconds_after_finished": None},
    "indexes to follow": {"image": "i", "logs": "0,17"},
    "kept for ever": {"image": "i", "ttl_seconds_after_finished": None, "on_finish": "keep"},
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD.keys())
def test_accepts(given):
    BatchJobOperator(task_id="t", **given)


@pytest.mark.parametrize("choice", list(Again), ids=lambda choice: choice.value)
def test_accepts_every_choice_of_what_runs_again(choice):
    BatchJobOperator(task_id="t", image="i", on_retry=choice.value, on_clear=choice.value)


def test_numbers_may_be_another_tasks_output():
    with DAG("d", schedule=None):

        @task
        def count() -> int:
            return 7

        work = BatchJobOperator(task_id="t", image="i", completions=count(), env={"N": count()})

    assert work.upstream_task_ids == {"count", "count__1"}


def test_another_tasks_output_where_nothing_resolves_it_is_an_error():
    with DAG("d", schedule=None):

        @task
        def count() -> int:
            return 7

        with pytest.raises(SpecError, match="not templated"):
            BatchJobOperator(task_id="t", image="i", tolerations=[count()])


def test_can_be_mapped():
    with DAG("d", schedule=None):
        mapped = BatchJobOperator.partial(task_id="t", image="i").expand(completions=[1, 2])

    assert mapped.template_fields == BatchJobOperator.template_fields


def test_survives_serialization():
    with DAG("d", schedule=None) as dag:
        BatchJobOperator(task_id="t", image="i", env={"A": "b"}, machine=Machine(cpu=1, memory="1Gi"))
        BatchJobSensor(task_id="s", of_task="t")

    # DagSerialization since 3.2
    serialization: Any = (
        vars(serialized_objects).get("DagSerialization") or vars(serialized_objects)["SerializedDAG"]
    )

    again = serialization.deserialize_dag(serialization.serialize_dag(dag))

    assert again.task_dict.keys() == {"t", "s"}


def test_named_parameters_come_from_default_args():
    with DAG("d", schedule=None, default_args={"kubernetes_conn_id": "gpu", "retries_per_index": 2}):
        work = BatchJobOperator(task_id="t", image="i")

    assert (work.kubernetes_conn_id, work.retries_per_index) == ("gpu", 2)


class TestAManifestsFile:
    @pytest.fixture
    def dag(self, tmp_path: Path) -> DAG:
        return DAG("d", schedule=None, template_searchpath=[str(tmp_path)])

    def test_that_is_not_found_stops_the_dag_from_loading(self, dag, tmp_path):
        BatchJobOperator(task_id="t", manifest="none.yaml", dag=dag)

        with pytest.raises(SpecError, match=r"manifest='none\.yaml'.*" + re.escape(str(tmp_path))):
            dag.resolve_template_files()

    def test_is_checked_with_the_dag(self, dag, tmp_path):
        (tmp_path / "a.yaml").write_text(JOB.replace("batch/v1", "v1").replace("Job", "Pod"))
        BatchJobOperator(task_id="t", manifest="a.yaml", dag=dag)

        with pytest.raises(SpecError, match="kind"):
            dag.resolve_template_files()

    def test_with_jinja_is_left_for_the_task(self, dag, tmp_path):
        (tmp_path / "a.yaml").write_text(JOB.replace("50", "{{ params.n }}").replace("Job", "{{ kind }}"))
        work = BatchJobOperator(task_id="t", manifest="a.yaml", dag=dag)

        dag.resolve_template_files()

        assert work.manifest == "a.yaml"

    def test_is_rendered_with_the_tasks_context(self, dag, tmp_path):
        (tmp_path / "a.yaml").write_text(JOB.replace("50", "{{ params.n }}"))
        work = BatchJobOperator(task_id="t", manifest="{{ name }}.yaml", dag=dag)

        rendered(work, params={"n": 9}, name="a")

        assert "completions: 9" in work.manifest

    def test_of_a_mapped_task_is_rendered_too(self, dag, tmp_path):
        # What `MappedOperator` calls of the task that it makes.
        (tmp_path / "a.yaml").write_text("n: {{ n }}\nkind: Job\n")
        work = BatchJobOperator(task_id="t", manifest="a.yaml", dag=dag)

        context: Any = {"n": 9}
        work._do_render_template_fields(work, work.template_fields, context, dag.get_template_env(), set())

        assert work.manifest.startswith("n: 9")


def test_an_argument_that_ends_in_yaml_is_no_file():
    dag = DAG("d", schedule=None)
    work = BatchJobOperator(task_id="t", image="i", command=["cat", "/etc/app.yaml"], dag=dag)

    rendered(work)

    assert work.command == ["cat", "/etc/app.yaml"]


def test_a_template_that_jinja_misreads_names_field_and_mend():
    from airflow_batchjob.compat import AirflowFailException

    dag = DAG("d", schedule=None)
    work = BatchJobOperator(task_id="t", image="i", args=["echo ${#a[@]}"], dag=dag)

    with pytest.raises(AirflowFailException, match=r"args=.*raw"):
        rendered(work)


NO_DATE: dict[str, str] = {
    "ds": "{{ ds }}",
    "a part of a date": "{{ logical_date.year }}",
    "a stamp": "{{ ts_nodash }}",
}


@pytest.mark.parametrize("template", NO_DATE.values(), ids=NO_DATE.keys())
def test_a_run_without_a_logical_date_says_so(template):
    from airflow_batchjob.compat import AirflowFailException

    work = BatchJobOperator(task_id="t", image="i", command=["echo", template], dag=DAG("d", schedule=None))

    with pytest.raises(AirflowFailException, match=r"this run has no logical date.*--logical-date") as told:
        rendered(work)
    assert template in str(told.value)


def test_another_name_that_is_missing_is_shown_with_its_template():
    from airflow_batchjob.compat import AirflowFailException

    work = BatchJobOperator(task_id="t", image="i", name="{{ nothing }}", dag=DAG("d", schedule=None))

    with pytest.raises(AirflowFailException, match=r"name='\{\{ nothing \}\}'.*not defined.*params"):
        rendered(work)


def test_dry_run_prints_what_render_prints(capsys, tmp_path):
    from airflow_batchjob.cli.main import main

    (tmp_path / "embed.yaml").write_text(JOB)
    dag = DAG("d", schedule=None, template_searchpath=[str(tmp_path)])
    work = BatchJobOperator(task_id="t", manifest="embed.yaml", min_succeeded="90%", dag=dag)
    rendered(work)

    work.dry_run()
    ours = capsys.readouterr().out
    main(["render", str(tmp_path / "embed.yaml"), "--min-succeeded", "90%"])

    assert ours == capsys.readouterr().out
    assert "parallelism: 7" in ours


def test_the_clock_is_ours_before_it_is_airflows():
    from datetime import datetime, timezone
    from types import SimpleNamespace

    from airflow_batchjob.operators.requesting import wall_clock_end

    start = datetime(2027, 1, 1, tzinfo=timezone.utc)
    context: Any = {"ti": SimpleNamespace(start_date=start)}

    def end_after(timeout: timedelta | None) -> float | None:
        work = BatchJobOperator(task_id="t", image="i", execution_timeout=timeout)
        end = wall_clock_end(work, context)
        return None if end is None else end - start.timestamp()

    assert end_after(None) is None
    assert end_after(timedelta(seconds=120)) == 110
    assert end_after(timedelta(seconds=8)) == 6
    assert end_after(timedelta(seconds=40)) == 30
