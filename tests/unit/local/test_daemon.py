"""A cluster in a process of its own: started once, found again, stopped, and gone after a crash."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_batchjob.local.daemon import Settings, StartError, start
from airflow_batchjob.local.folder import ClusterFolder, Running
from airflow_batchjob.local.reach import Reach, RefusedError

LIMIT_SECONDS = 20.0


def eventually(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT_SECONDS
    while not (seen := look()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return seen


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ClusterFolder]:
    folder = ClusterFolder(tmp_path / "cluster")
    yield folder
    folder.stop()


def started(folder: ClusterFolder, **settings: Any) -> Running:
    return start(Settings(folder=str(folder.path), **settings))


def test_a_cluster_runs_until_it_is_stopped_and_leaves_no_way_in(folder: ClusterFolder) -> None:
    running = started(folder)

    assert folder.running() == running
    assert Reach.by_kubeconfig(folder.kubeconfig).ask("GET", "/version")["major"] == "1"
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for path in folder.path.iterdir():
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert folder.stop()
    assert not psutil.pid_exists(running.pid)
    assert not folder.kubeconfig.exists()
    assert folder.running() is None
    assert not folder.stop()


def test_it_ends_with_the_process_it_was_started_for(folder: ClusterFolder) -> None:
    owner = subprocess.Popen(["sleep", "60"])
    running = started(folder, ends_with=owner.pid)
    assert folder.running() == running

    owner.kill()

    eventually(lambda: folder.running() is None)
    owner.wait()


def test_a_second_one_in_the_same_folder_is_refused(folder: ClusterFolder) -> None:
    started(folder)

    with pytest.raises(StartError, match="already"):
        started(folder)


def test_a_port_in_use_is_said(folder: ClusterFolder, tmp_path: Path) -> None:
    port = int(started(folder).url.rpartition(":")[2])

    with pytest.raises(StartError, match=str(port)):
        started(ClusterFolder(tmp_path / "other"), port=port)


def test_machines_that_are_declared_wrongly_are_said(folder: ClusterFolder, tmp_path: Path) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text("machines: [{name: a, cpu: many, memory: 1Gi}]")

    with pytest.raises(StartError, match="cpu"):
        started(folder, machines=str(file))


def test_what_an_earlier_one_left_behind_does_not_count(folder: ClusterFolder) -> None:
    folder.path.mkdir()
    (folder.path / "pid.json").write_text('{"pid": 1, "name": "x", "url": "https://x", "started": "x"}')

    assert folder.running() is None
    assert not folder.stop()
    assert started(folder).pid != 1


def sleeper(api: Reach, pid_file: Path) -> int:
    """Run a pod that sleeps; return its process. (Kubernetes makes one dollar sign of two.)"""
    command = ["sh", "-c", f"echo $$$$ > {pid_file}; exec sleep 600"]
    containers = [{"name": "main", "image": "none", "command": command}]
    pod = {"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}
    api.ask("POST", "/api/v1/namespaces/default/pods", pod)
    return int(eventually(lambda: pid_file.exists() and pid_file.read_text().strip()))


def test_processes_end_with_the_cluster_however_it_ends(folder: ClusterFolder, tmp_path: Path) -> None:
    for ending in ("stopped", "killed"):
        running = started(folder)
        process = psutil.Process(sleeper(Reach.by_kubeconfig(folder.kubeconfig), tmp_path / ending))
        assert process.is_running()

        if ending == "killed":
            os.kill(running.pid, signal.SIGKILL)
        else:
            folder.stop()

        eventually(lambda: not process.is_running() or process.status() == "zombie")  # noqa: B023
        assert folder.running() is None


def test_nodes_are_lost_and_brought_back(folder: ClusterFolder) -> None:
    started(folder)
    api = Reach.by_kubeconfig(folder.kubeconfig)

    def nodes() -> set[str]:
        return {one["metadata"]["name"] for one in api.ask("GET", "/api/v1/nodes")["items"]}

    api.lose_node("spot-1")
    assert nodes() == {"local", "spot-2"}
    with pytest.raises(RefusedError, match="not found"):
        api.lose_node("spot-1")
    api.bring_back_node("spot-1")
    assert nodes() == {"local", "spot-1", "spot-2"}
    with pytest.raises(RefusedError, match="already exists"):
        api.bring_back_node("spot-1")
    with pytest.raises(RefusedError, match="There are: local, spot-1, spot-2"):
        api.bring_back_node("spot-9")


def test_a_pod_is_evicted(folder: ClusterFolder, tmp_path: Path) -> None:
    started(folder)
    api = Reach.by_kubeconfig(folder.kubeconfig)
    process = psutil.Process(sleeper(api, tmp_path / "pid"))

    api.evict("default", "p")

    eventually(lambda: not process.is_running())
