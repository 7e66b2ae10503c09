"""Many Jobs through all kinds of faults: no wrong verdict, and none lost, doubled or orphaned.

The long form is `make soak`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_batchjob.local.daemon import Settings, start
from airflow_batchjob.local.folder import ClusterFolder
from airflow_batchjob.local.reach import Reach
from tests.faults.checking import History, problems
from tests.faults.soak import soak
from tests.faults.tiny_airflow import Task
from tests.faults.work import Kind, plans

SEED = 1
TASKS = 40


@pytest.fixture
def empty_cluster(tmp_path: Path) -> Iterator[Reach]:
    folder = ClusterFolder(tmp_path / "cluster")
    start(Settings(folder=str(folder.path)))
    try:
        yield Reach.by_kubeconfig(folder.kubeconfig)
    finally:
        folder.stop()


@pytest.mark.timeout(240)
def test_a_soak_goes_well(empty_cluster: Reach, tmp_path: Path) -> None:
    outcome = asyncio.run(soak(SEED, TASKS, empty_cluster, tmp_path))

    print(outcome)
    assert outcome.problems == []
    assert len(outcome.faults) > 10
    assert outcome.seen["a worker was killed"] > 3


def test_work_of_every_kind_is_done_in_a_soak() -> None:
    assert {plan.kind for plan in plans(SEED, TASKS)} == set(Kind)


def test_a_seed_gives_one_work() -> None:
    assert plans(3, 50) == plans(3, 50)
    assert plans(3, 50) != plans(4, 50)


def test_what_went_wrong_is_noticed(tmp_path: Path) -> None:
    plan = next(plan for plan in plans(SEED, TASKS) if plan.kind is Kind.WELL)
    task = Task(plan=plan, folder=tmp_path, run_id="run", tries=1, state="success")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "0").write_text("start 1\nend 1 0\nstart 2\n")

    found = "; ".join(problems(task, History(Reach("", "", ""))))

    assert "had 0 Jobs in 1 tries" in found
    assert "index 0 ran 2 times, [1] are wanted" in found
    assert "index 1 ran 0 times" in found
    assert "was told no verdict" in found
