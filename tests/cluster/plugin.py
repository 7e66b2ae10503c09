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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local_only: runs on the local cluster alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for other clusters.

    tests/real is left out of a run of everything on the local cluster, where tests/dags does the same;
    what is marked `local_only` of a run on real ones, which have the essential cases of its kind.
    """
    if config.getoption("--cluster") != LOCAL or config.getoption("--kubeconfig") is not None:
        out = [item for item in items if item.get_closest_marker("local_only")]
    elif any("real" in Path(word.split("::")[0]).parts for word in config.args):
        return
    else:
        out = [item for item in items if item.path.parent.name == "real"]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


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
