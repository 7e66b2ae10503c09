"""`batchjob doctor` says what is missing for what; and what is optional changes no verdict."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from airflow_batchjob.cli.main import main
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.event import Order, Outcome
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.request.budget import Thresholds
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.rules.rights import RIGHTS, role_yaml
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.testing import Cluster
from tests.faults.fates import Fates
from tests.faults.proxy import FaultProxy

Doctor = Callable[..., Any]


@pytest_asyncio.fixture
async def proxy(batchjob_cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    fates = Fates(seed=0, share=0, stream_share=0)
    async with FaultProxy(upstream=batchjob_cluster.reach, fates=fates, folder=tmp_path) as made:
        yield made


async def doctor(proxy: FaultProxy, *words: str, **given: Any) -> int:
    account = proxy.account("worker", **given)
    arguments = ["doctor", "--kubeconfig", str(account.kubeconfig), *words]
    return await asyncio.to_thread(main, arguments)


async def test_where_everything_is_allowed_it_says_so(
    proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await doctor(proxy)

    said = capsys.readouterr().out
    assert code == 0
    assert "READY" in said
    assert "kind: Role" not in said
    assert "namespace default: is there" in said
    assert "Kueue: is not installed" in said
    assert "batchjob-local" in said


@pytest.mark.parametrize("right", [right for right in RIGHTS if right.is_needed], ids=str)
async def test_what_is_needed_and_missing_is_an_error(
    proxy: FaultProxy, capsys: pytest.CaptureFixture[str], right: Any
) -> None:
    code = await doctor(proxy, forbidden=frozenset({str(right)}))

    said = capsys.readouterr().out
    assert code == 1
    assert f"NOT READY: the account may not {right}" in said
    assert role_yaml() in said


@pytest.mark.parametrize("right", [right for right in RIGHTS if not right.is_needed], ids=str)
async def test_what_is_optional_and_missing_is_a_warning_that_says_for_what(
    proxy: FaultProxy, capsys: pytest.CaptureFixture[str], right: Any
) -> None:
    code = await doctor(proxy, forbidden=frozenset({str(right)}))

    said = capsys.readouterr().out
    assert code == 0
    assert f"may not {right}: {right.without}" in said
    assert "READY" in said
    assert ("kind: ClusterRole" in said) == (not right.in_namespace)


async def test_a_namespace_that_does_not_exist_is_an_error(
    proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await doctor(proxy, "--namespace", "nowhere")

    assert code == 1
    assert "NOT READY: there is no namespace nowhere" in capsys.readouterr().out


async def test_a_cluster_that_lets_nobody_in_is_an_error(
    proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    account = proxy.account("stranger")
    proxy.close_account(account)

    code = await asyncio.to_thread(main, ["doctor", "--kubeconfig", str(account.kubeconfig)])

    assert code == 1
    assert "NOT READY: ask the server's version: 401" in capsys.readouterr().out


def test_the_role_alone_is_printed_without_asking(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--role"]) == 0

    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Role"


# ---------------------------------------------------------------- rights and verdicts


def request_of(name: str, command: list[str]) -> Request:
    built = build(JobSpec(image="none", command=command, completions=2, parallelism=2), default_name=name)
    assert isinstance(built.thresholds, Thresholds)
    return Request(
        manifest=built.manifest,
        thresholds=built.thresholds,
        identity=TaskIdentity("tests", "rights", "run", name),
        holder="me/1",
        logs="all",
    )


async def run(proxy: FaultProxy, request: Request, forbidden: frozenset[str], log: logging.Logger) -> Any:
    settings = ClusterSettings(kube_config_path=str(proxy.account("a", forbidden=forbidden).kubeconfig))
    async with await connect(settings) as client:
        order = await submit(client, request, log=log)
        assert isinstance(order, Order)
        verdict = await supervise(client, order, log=log)
        return await conclude(client, order, verdict, log=log)


OPTIONAL = frozenset(str(right) for right in RIGHTS if not right.is_needed)
# Long enough for a watch to be asked for, and refused.
COMMANDS = {
    "all succeed": (["sleep", "2"], Outcome.MET),
    "all fail": (["sh", "-c", "sleep 2; exit 1"], Outcome.NOT_MET),
    "some fail": (["sh", "-c", "sleep 2; exit $JOB_COMPLETION_INDEX"], Outcome.NOT_MET),
}


@pytest.mark.parametrize(("command", "want"), COMMANDS.values(), ids=COMMANDS.keys())
async def test_without_all_that_is_optional_the_verdict_is_the_same(
    proxy: FaultProxy, caplog: pytest.LogCaptureFixture, command: list[str], want: Outcome
) -> None:
    name = f"without-{list(COMMANDS.values()).index((command, want))}"
    log = logging.getLogger(name)

    verdict = await asyncio.wait_for(run(proxy, request_of(name, command), OPTIONAL, log), 110)

    assert verdict.outcome is want
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    for what in ("pods", "watch"):
        assert sum(what in warning for warning in warnings) <= 2, warnings
    assert any("can't be watched" in warning for warning in warnings)


async def test_without_the_right_to_read_jobs_it_ends_at_once(proxy: FaultProxy) -> None:
    log = logging.getLogger("without")
    with pytest.raises(ApiRefusedError) as told:
        await asyncio.wait_for(run(proxy, request_of("without", ["true"]), frozenset({"list jobs"}), log), 10)

    assert told.value.code == 403
    assert "batchjob doctor" in str(told.value)
