"""Each example loads, and runs on the local cluster."""

from __future__ import annotations

import importlib.util
import sys
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
    """Return the DAGs of a file by their ids."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return {it.dag_id: it for it in vars(module).values() if isinstance(it, DAG)}


def dag(file: str, dag_id: str | None = None) -> DAG:
    return load(DAGS / f"{file}.py")[dag_id or file]


@each_file
def test_loads(path: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(path), include_examples=False)

    assert not bag.import_errors
    tasks = [task for it in bag.dags.values() for task in it.tasks]
    assert any(isinstance(task, (BatchJobOperator, BatchJobSensor)) for task in tasks)


@each_file
def test_says_what_it_shows(path: Path) -> None:
    text = path.read_text()

    assert text.startswith('"""')
    assert text.count("# [START ") == text.count("# [END ") > 0
