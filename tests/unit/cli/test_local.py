"""`batchjob local`: what it says and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_batchjob.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    main(["local", "stop", "--folder", str(tmp_path / "cluster")])


def test_a_whole_life(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str, str]:
        code = main(["local", *words, "--folder", str(folder)])
        return (code, *capsys.readouterr())

    code, out, _ = said("start")
    assert code == 0
    assert f"export KUBECONFIG={folder}/kubeconfig" in out
    [line] = [line for line in out.splitlines() if "AIRFLOW_CONN_KUBERNETES_DEFAULT=" in line]
    connection = json.loads(line.partition("=")[2].strip("'"))
    extra = {"kube_config_path": f"{folder}/kubeconfig", "batchjob": {"capacity": "label"}}
    want = {"conn_type": "kubernetes", "extra": extra}
    assert connection == want

    code, out, _ = said("start")
    assert (code, "It runs already" in out) == (0, True)
    code, _, err = said("start", "--port", "1")
    assert (code, "with the settings it was started with" in err) == (1, True)
    code, out, _ = said("status")
    assert (code, "nodes: local, spot-1, spot-2" in out) == (0, True)
    assert said("kubeconfig") == (0, f"{folder}/kubeconfig\n", "")
    code, out, _ = said("lose", "spot-1")
    assert (code, out.startswith("Node spot-1 is lost.")) == (0, True)
    assert said("restore", "spot-1") == (0, "Node spot-1 is back.\n", "")
    assert said("restore", "spot-1") == (0, "Node spot-1 is there.\n", "")
    known = "There now: local, spot-1, spot-2\n"
    assert said("lose", "nonode") == (2, "", f"batchjob local: there is no node 'nonode'. {known}")
    code, _, err = said("restore", "no")
    assert (code, "local, spot-1, spot-2" in err) == (2, True)
    code, _, err = said("evict", "p")
    assert (code, err) == (2, "batchjob local: there is no pod 'p' in namespace 'default'. There now: none\n")
    code, out, _ = said("stop")
    assert (code, out.startswith("Stopped; its Jobs, pods and kubeconfig are gone.")) == (0, True)
    assert said("stop") == (0, f"No cluster runs in {folder}.\n", "")


@pytest.mark.parametrize(
    "command", [["status"], ["kubeconfig"], ["lose", "n"], ["restore", "n"], ["evict", "p"]]
)
def test_where_none_runs_one_is_told_how_to_start_one(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["local", *command, "--folder", str(folder)])

    assert code == 1
    assert f"batchjob local start --folder {folder}" in "".join(capsys.readouterr())


def test_the_folder_is_below_that_for_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    main(["local", "status", "--name", "mine"])

    assert f"No cluster runs in {tmp_path}/airflow-batchjob/mine." in capsys.readouterr().out
