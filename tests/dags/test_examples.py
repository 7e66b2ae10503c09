"""Each example loads, and runs on the local cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator, BatchJobSensor

DAGS = Path(__file__).parents[2] / "dags"
FILES = sorted(DAGS.glob("*.py"))

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@pytest.fixture(autouse=True)
def dags_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what Airflow does before it loads a DAG file."""
    monkeypatch.syspath_prepend(str(DAGS))


def load(path: Path) -> dict[str, DAG]:
    """Return the DAGs of a file by their ids, as Airflow loads them."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(path), bundle_name="dags-folder")
    assert not bag.import_errors
    return dict(bag.dags)


@each_file
def test_loads(path: Path) -> None:
    tasks = [task for dag in load(path).values() for task in dag.tasks]

    assert any(isinstance(task, (BatchJobOperator, BatchJobSensor)) for task in tasks)


@each_file
def test_says_what_it_shows(path: Path) -> None:
    text = path.read_text()

    assert text.startswith('"""')
    assert text.count("# [START ") == text.count("# [END ") > 0


pytestmark = [
    pytest.mark.usefixtures("airflow_database", "batchjob_connection"),
    # dag.test() takes what a signal raises for the end of a task, and goes on.
    pytest.mark.timeout(300, method="thread"),
]


def run(dag: DAG, **arguments: Any) -> Any:
    """Run a DAG in this process, and return its run, which succeeded."""
    ended = dag.test(**arguments)
    states = {task.task_id: str(task.state) for task in ended.get_task_instances()}
    assert ended.state == "success", states
    return ended


def returned(ended: Any, task_id: str, key: str = "return_value") -> Any:
    """Return what a task of a run pushed."""
    return ended.get_task_instance(task_id).xcom_pull(task_ids=task_id, key=key)


def test_the_first_dag_greets_three_times() -> None:
    (dag,) = load(DAGS / "first_dag.py").values()

    assert returned(run(dag), "greet")["succeeded_indexes"] == "0-2"


def test_a_manifest_gets_its_variables() -> None:
    (dag,) = load(DAGS / "manifest_with_variables.py").values()

    result = returned(run(dag), "count_words")

    assert (result["verdict"], result["succeeded_indexes"]) == ("met", "0-3")


def test_two_containers_share_a_machine() -> None:
    (dag,) = load(DAGS / "two_containers.py").values()

    result = returned(run(dag), "train")

    assert (result["verdict"], result["succeeded"], result["completions"]) == ("met", 2, 2)


def test_two_failed_indexes_of_twenty_are_tolerated_and_named() -> None:
    (dag,) = load(DAGS / "tolerated_failures.py").values()

    ended = run(dag)

    assert returned(ended, "read", "failed_indexes") == "7,13"
    assert returned(ended, "name_the_failed") == [7, 13]


def test_half_of_a_job_starts_another_dag() -> None:
    dags = load(DAGS / "start_at_half.py")
    # dag.test() runs one task after the other, in any order, and a sensor waits for a task that is still
    # to come.
    dags["embed"].get_task("embed").set_downstream(dags["embed"].get_task("half_way"))

    ended = run(dags["embed"])

    assert returned(ended, "half_way", "succeeded") >= 4
    assert dags["preview"].schedule == dags["embed"].get_task("half_way").outlets
    run(dags["preview"])


def test_a_few_files_go_through_the_whole_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from python_sources import shards

    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "fine.py").write_text("def one():\n    return 1\n")
    (sources / "broken.py").write_text("def one(:\n")
    monkeypatch.setattr(shards, "python_files", lambda: sorted(sources.iterdir()))
    (dag,) = load(DAGS / "parse_python_sources.py").values()

    written = returned(run(dag, run_conf={"folder": str(tmp_path / "out"), "shards": 3}), "report")

    assert (written["files"], written["functions"], written["broken"]) == (1, 1, 1)
    assert "invalid syntax" in Path(written["report"]).read_text()
    assert Path(written["picture"]).read_text().count("<title>shard ") == 3
    assert json.loads(Path(written["report"]).with_name("report.json").read_text()) == written
