"""`batchjob run`: exit codes, and what Ctrl-C does, once and twice."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from airflow_batchjob.cli.main import main
from airflow_batchjob.cli.run import EXIT_MET, EXIT_NOT_MET, _Running
from tests.unit.supervisor.small_cluster import SmallCluster
from tests.unit.supervisor.test_submit import request
from tests.unit.supervisor.virtual import virtual_time

LOG = logging.getLogger("test")
MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: squares}
spec:
  completions: 3
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
"""


def manifest_in(folder: Path) -> str:
    path = folder / "job.yaml"
    path.write_text(MANIFEST)
    return str(path)


BAD = {
    "a number that is none": ["--completions", "many"],
    "a percentage above 100": ["--min-succeeded", "120%"],
    "logs of nobody": ["--logs", "some"],
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_2_and_nothing_is_asked_of_a_cluster(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", manifest_in(tmp_path), "--kubeconfig", "/nowhere", *options])

    assert code == 2
    assert options[0].strip("-").replace("-", "_") in capsys.readouterr().err


def test_no_completions_are_nothing_to_do(tmp_path: Path) -> None:
    assert main(["run", manifest_in(tmp_path), "--kubeconfig", "/nowhere", "--completions", "0"]) == 0


COMMANDS = {"run": ["run"], "rerun": ["rerun", "embed-1", "--indexes", "failed"]}


def command_in(words: list[str], folder: Path) -> list[str]:
    return [*words, manifest_in(folder)] if words == ["run"] else words


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_kubeconfig_that_is_not_there_is_2_and_the_mend_can_be_done(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command_in(words, tmp_path), "--kubeconfig", "/nowhere"]) == 2
    said = capsys.readouterr().err
    assert "--kubeconfig='/nowhere': there is no such file" in said
    assert "`batchjob local start`" in said


def test_the_kubeconfig_of_the_environment_is_named_by_its_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nowhere:/neither")

    assert main(["run", manifest_in(tmp_path)]) == 2
    assert "KUBECONFIG='/nowhere:/neither'" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_context_that_is_not_there_is_2_and_the_known_ones_are_named(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("contexts: [{name: home, context: {}}, {name: away, context: {}}]")

    code = main([*command_in(words, tmp_path), "--kubeconfig", str(kubeconfig), "--context", "nope"])

    assert code == 2
    said = capsys.readouterr().err
    assert "--context='nope'" in said
    assert "Use a known one: away, home." in said


def test_a_kubeconfig_that_makes_no_sense_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("[1, 2]")

    assert main(["run", manifest_in(tmp_path), "--kubeconfig", str(kubeconfig), "--context", "a"]) == 2
    assert str(kubeconfig) in capsys.readouterr().err


async def started(cluster: SmallCluster) -> tuple[_Running, asyncio.Task[int]]:
    running = _Running(client=cluster, request=request(max_tries=0), log=LOG)
    task = asyncio.ensure_future(running.to_the_end(None))
    running.main = task
    await asyncio.sleep(0.015)
    return running, task


@virtual_time
async def test_a_job_that_is_met_is_0_and_its_result_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = SmallCluster()
    _, task = await started(cluster)
    await asyncio.sleep(5)

    cluster.end(cluster.names()[0], completedIndexes="0-3")

    assert await task == EXIT_MET
    assert json.loads(capsys.readouterr().out)["succeeded_indexes"] == "0-3"


@virtual_time
async def test_a_job_that_is_not_met_is_1_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    _, task = await started(cluster)
    await asyncio.sleep(5)

    cluster.end(cluster.names()[0], "Failed", completedIndexes="0-2", failedIndexes="3")

    assert await task == EXIT_NOT_MET
    assert "3 of 4 succeeded, 4 needed. 1 failed: 3" in caplog.text


@virtual_time
async def test_ctrl_c_stops_the_job_and_waits_for_its_end(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)
    await asyncio.sleep(5)

    running.interrupt()

    assert await task == EXIT_NOT_MET
    assert cluster.only()["spec"]["activeDeadlineSeconds"] == 0
    assert "interrupted on the command line" in caplog.text


@virtual_time
async def test_ctrl_c_while_submitting_stops_what_has_come_of_it() -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)

    running.interrupt()

    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert cluster.only()["spec"]["activeDeadlineSeconds"] == 0


@virtual_time
async def test_a_second_ctrl_c_leaves_at_once_and_names_what_is_left() -> None:
    cluster = SmallCluster()
    cluster.slow_to_die = True
    running, task = await started(cluster)
    await asyncio.sleep(5)

    running.interrupt()
    await asyncio.sleep(2)
    running.interrupt()

    await asyncio.gather(task, return_exceptions=True)
    await running.leave()
    assert task.cancelled()
    assert f"Job batch/{cluster.names()[0]} was told to stop" in running.what_is_left


@virtual_time
async def test_what_leaves_before_the_stop_was_heard_says_how_to_delete_the_job() -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)
    await asyncio.sleep(5)

    task.cancel()

    await asyncio.gather(task, return_exceptions=True)
    assert f"kubectl delete job {cluster.names()[0]}" in running.what_is_left


@virtual_time
async def test_signals_in_quick_succession_are_one() -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)
    await asyncio.sleep(5)

    running.interrupt()
    await asyncio.sleep(0.5)
    running.interrupt()

    assert await task == EXIT_NOT_MET
    assert cluster.only()["spec"]["activeDeadlineSeconds"] == 0


@virtual_time
async def test_two_signals_while_submitting_stop_what_has_come_of_it() -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)

    running.interrupt()
    running.interrupt()

    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert cluster.only()["spec"]["activeDeadlineSeconds"] == 0


@virtual_time
async def test_what_leaves_ends_its_stop_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SmallCluster()
    running, task = await started(cluster)
    await asyncio.sleep(5)

    running.interrupt()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await running.leave()

    assert running.stopping is not None
    assert running.stopping.done()
    assert "could not be stopped" not in caplog.text
