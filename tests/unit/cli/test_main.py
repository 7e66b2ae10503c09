"""The entry point: which commands there are, and what errors become."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_batchjob.cli.main import main


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
