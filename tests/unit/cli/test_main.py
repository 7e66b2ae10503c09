"""The entry point: which commands there are, and what errors become."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_batchjob.cli.main import _exit_code, main
from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiRefusedError,
    ApiUnavailableError,
    BatchJobError,
    ForeignJobError,
    NotFoundError,
    TaskCutError,
    ThresholdNotMetError,
)


def test_help_lists_the_commands(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    assert caught.value.code == 0
    assert "render" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["explode"], ["render"], ["render", "x.yaml", "--explode"]])
def test_a_wrong_command_line_is_a_usage_error(words, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)

    assert caught.value.code == 2
    assert "usage: batchjob" in capsys.readouterr().err


def test_render_imports_neither_airflow_nor_a_client() -> None:
    program = (
        "import sys\n"
        "from airflow_batchjob.cli.main import main\n"
        "assert main(['render', '/nowhere.yaml']) == 2\n"
        "heavy = {'airflow', 'kubernetes', 'kubernetes_asyncio', 'aiohttp', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


CODES: dict[str, tuple[BatchJobError, int]] = {
    "a Job that is not met": (ThresholdNotMetError("2 failed"), 1),
    "a process that is told to end": (TaskCutError("told to end"), 1),
    "a namespace that is not there": (ApiRefusedError("create", code=404, reason="NotFound"), 2),
    "missing rights": (ApiRefusedError("create", code=403), 2),
    "a kubeconfig that makes no sense": (ApiRefusedError("connect"), 2),
    "a Job that is not there": (NotFoundError("get", code=404), 2),
    "somebody else's Job": (ForeignJobError("theirs"), 2),
    "no answer": (ApiUnavailableError("list"), 3),
    "a server in trouble": (ApiUnavailableError("list", code=503), 3),
    "a change by someone else": (ApiConflictError("patch", code=409), 3),
}


@pytest.mark.parametrize(("error", "want"), CODES.values(), ids=CODES.keys())
def test_exit_codes_tell_a_failed_job_from_a_wrong_request_from_a_cluster_out_of_reach(
    error: BatchJobError, want: int
) -> None:
    assert _exit_code(error) == want
