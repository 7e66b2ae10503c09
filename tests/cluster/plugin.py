"""Which cluster the tests run against: `--cluster local`, `1.34` or `1.37`, or `--kubeconfig FILE`.

A real cluster is started once all tests are collected, and stopped at the end, outside the time that
a test may take. A test that fails then shows the last lines of the servers' logs, and a server that
has died fails the test during which it did.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.build import VERSIONS, MissingToolError
from tests.cluster.cluster import Cluster, ClusterInUseError, running
from tests.cluster.processes import ServerDiedError
from tests.cluster.target import GivenCluster, LocalCluster, RealCluster, Target

LOCAL = "local"
STARTED = pytest.StashKey[Cluster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster")
    group.addoption(
        "--cluster",
        choices=[LOCAL, *VERSIONS],
        default=LOCAL,
        help="what to run on: a local cluster, or real ones",
    )
    group.addoption("--kubeconfig", type=Path, default=None, help="run on a cluster that you have")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests/real out of a run of everything on the local cluster: tests/dags does that there."""
    if config.getoption("--cluster") != LOCAL or config.getoption("--kubeconfig") is not None:
        return
    if any("real" in Path(word.split("::")[0]).parts for word in config.args):
        return
    real = [item for item in items if item.path.parent.name == "real"]
    if real:
        config.hook.pytest_deselected(items=real)
        items[:] = [item for item in items if item not in set(real)]


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    version = session.config.getoption("--cluster")
    is_given = session.config.getoption("--kubeconfig") is not None
    if version == LOCAL or is_given or session.config.option.collectonly or not session.items:
        return (yield)
    try:
        with running(version) as cluster:
            session.config.stash[STARTED] = cluster
            return (yield)
    except (MissingToolError, ClusterInUseError, ServerDiedError) as reason:
        raise pytest.UsageError(str(reason)) from reason


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Target:
    """The cluster of this run."""
    kubeconfig = request.config.getoption("--kubeconfig")
    if kubeconfig is not None:
        return GivenCluster(kubeconfig)
    if (started := request.config.stash.get(STARTED, None)) is not None:
        return RealCluster(started)
    return LocalCluster(request.getfixturevalue("batchjob_cluster"))


@pytest.fixture(autouse=True)
def _servers_live(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if (started := request.config.stash.get(STARTED, None)) is not None:
        started.check()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    started = item.config.stash.get(STARTED, None)
    if report.failed and started is not None:
        report.sections.extend((f"last lines of {name}", tail) for name, tail in started.log_tails().items())
    return report
