"""Commands that the pages name are commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from airflow_batchjob.cli.main import main
from airflow_batchjob.local.nodes.machines import read_machines
from tools import docs

ROOT = Path(__file__).parents[2]
NAMED = sorted(
    {
        command.strip()
        for page in docs.PAGES
        for command in re.findall(r"(?:`|^\$ |^)(batchjob [a-z][^`\n<>]*)", page.read_text(), re.MULTILINE)
    }
)


def test_pages_name_some() -> None:
    assert NAMED


@pytest.mark.parametrize("command", NAMED)
def test_batchjob_knows_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    subcommands = words[: 2 if words[0] == "local" else 1]

    with pytest.raises(SystemExit) as ended:
        main([*subcommands, "--help"])

    assert ended.value.code == 0
    help_ = capsys.readouterr().out
    assert [option for option in words if option.startswith("--") and option not in help_] == []


def test_the_machines_of_the_page_can_be_declared() -> None:
    page = (ROOT / "docs" / "local-cluster.md").read_text()
    (declared,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "machines:" in text]

    assert [machine.name for machine in read_machines(declared)] == ["desk", "spot-1"]
