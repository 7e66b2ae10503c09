"""One Airflow for all scenarios of a session; which one, `python -m tests.e2e` says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_batchjob.testing import Cluster
from tests.cluster.processes import Processes
from tests.e2e.ahead import SCENARIOS
from tests.e2e.airflow import Airflow, end_all
from tests.e2e.connections import connection_through
from tests.e2e.environments import python_of
from tests.e2e.lab import Lab
from tests.e2e.postgres import start_postgres
from tests.e2e.proxy import Door

CHOSEN = os.environ.get("BATCHJOB_E2E", "")
"""Airflow's version and its database: "newest postgresql". Unset: `make test` leaves these tests out."""

if not CHOSEN:
    collect_ignore_glob = ["test_*.py"]

ORDER = ("test_ends", "test_users", "test_waits", "test_triggerer", "test_worker")
"""The last two kill what the scenarios of `test_waits` need, which run beside the first two."""

TEST_SECONDS = 300

LAB = pytest.StashKey[Lab]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "essential: runs on the oldest Airflow, too")
    config.addinivalue_line("markers", "ahead(name): tells how a scenario ended that began at the start")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    if len(ours) < len(items):  # of `make test`, which has none of these
        return
    items.sort(key=lambda item: ORDER.index(item.path.stem))
    for item in items:
        item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def lab(batchjob_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Airflow runs, and knows the DAGs."""
    version, database = CHOSEN.split()
    folder = Path(tempfile.mkdtemp(prefix="batchjob-e2e-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    processes = Processes(folder / "processes")
    port = int(batchjob_cluster.url.rsplit(":", 1)[1])
    outage, slow = Door(port), Door(port)
    connections = {
        "kubernetes_default": connection_through(batchjob_cluster.kubeconfig, port, folder),
        "kubernetes_outage": connection_through(batchjob_cluster.kubeconfig, outage.port, folder),
        "kubernetes_slow": connection_through(batchjob_cluster.kubeconfig, slow.port, folder),
    }
    try:
        home = folder / "airflow"
        home.mkdir()
        if database == "postgresql":
            address = start_postgres(processes, folder / "postgres")
        else:
            address = f"sqlite:///{home}/airflow.db"
        airflow = Airflow(python_of(version), home, processes, address, connections)
        gates = folder / "gates"
        gates.mkdir()
        made = Lab(airflow, batchjob_cluster, outage, slow, gates)
        request.config.stash[LAB] = made
        airflow.start()
        yield made
        assert made.left_over() == []
    finally:
        end_all(processes)
        for door in (outage, slow):
            door.close()
        if not request.session.testsfailed:  # else its logs tell why
            shutil.rmtree(folder)


@pytest.fixture(scope="session", autouse=True)
def scenarios(lab: Lab, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[None]]]:
    """What the session's tests of `test_waits` ask for, begun at once."""
    marks = [mark for item in request.session.items for mark in item.iter_markers("ahead")]
    with ThreadPoolExecutor(max_workers=len(SCENARIOS)) as pool:
        yield {mark.args[0]: pool.submit(SCENARIOS[mark.args[0]], lab) for mark in marks}


@pytest.fixture
def ahead(scenarios: dict[str, Future[None]], request: pytest.FixtureRequest) -> Future[None]:
    """The scenario that the test is marked with."""
    return scenarios[request.node.get_closest_marker("ahead").args[0]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    lab = item.config.stash.get(LAB, None)
    if report.failed and lab is not None:
        processes = lab.airflow.processes
        report.sections.extend(
            (f"last lines of {name}", processes.tail_of(name)) for name in processes.names()
        )
        report.sections.extend((f"log of {name}", text[-6000:]) for name, text in lab.logs_of_runs().items())
    return report
