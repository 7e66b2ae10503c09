"""`batchjob run` on a cluster: its exit codes, its output, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.target import Target
from tests.contract.asking import Asker, indexed
from tests.contract.living import conditions, runs
from tests.real.working import UNTIL_TERM, the_job, when_running

SECONDS = 90
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(api: Asker, cluster: Target, tmp_path: Path) -> Iterator[Start]:
    """Start `batchjob run` with a manifest whose pods run a script."""
    running: list[subprocess.Popen[str]] = []

    def run(script: str, *options: str, completions: int = 1) -> subprocess.Popen[str]:
        manifest = tmp_path / "work.yaml"
        sent = indexed("work", completions=completions, parallelism=completions, pod=runs("sh", "-c", script))
        manifest.write_text(yaml.safe_dump(sent))
        words = [
            *(sys.executable, "-m", "airflow_batchjob.cli.main", "run", str(manifest)),
            f"--kubeconfig={cluster.kubeconfig}",
            f"--namespace={api.namespace}",
            *options,
        ]
        running.append(
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        )
        return running[-1]

    yield run
    for child in running:
        child.kill()
        child.communicate()


def told(child: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Wait for the end; return exit code, result and what was said."""
    result, said = child.communicate(timeout=SECONDS)
    return child.returncode, json.loads(result.splitlines()[-1]) if result else {}, said


def test_success(start: Start) -> None:
    code, result, said = told(start("echo hello $JOB_COMPLETION_INDEX", completions=2))

    assert (code, result["verdict"], result["succeeded_indexes"]) == (0, "met", "0,1"), said
    assert "hello 0" in said
    assert "hello 1" in said


def test_failed_indexes(start: Start) -> None:
    script = "echo bad luck >&2; exit $((JOB_COMPLETION_INDEX % 2))"
    code, result, said = told(start(script, "--retries-per-index=0", completions=4))

    assert (code, result["verdict"], result["failed_indexes"]) == (1, "not_met", "1,3"), said
    assert "2 of 4 succeeded" in said
    assert "bad luck" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kill_stops_the_job_and_waits_for_its_end(api: Asker, start: Start, number: signal.Signals) -> None:
    child = start(UNTIL_TERM, completions=2)
    when_running(api, 2)

    child.send_signal(number)
    code, result, said = told(child)

    assert (code, result["reason"]) == (1, "Stopped"), said
    assert conditions(the_job(api))[-1] == ("Failed", "DeadlineExceeded")


def test_a_second_run_under_one_id_takes_the_result(api: Asker, start: Start) -> None:
    first = told(start("sleep 1", "--id=monday"))
    second = told(start("sleep 1", "--id=monday"))

    assert (first[0], second[0]) == (0, 0)
    assert second[1]["job_uid"] == first[1]["job_uid"]


def test_what_the_server_refuses_is_said(start: Start) -> None:
    code, _, said = told(start("true", "--machine=cpu=banana"))

    assert code == 2
    assert "machine" in said
