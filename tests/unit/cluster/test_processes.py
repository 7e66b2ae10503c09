"""Servers of a test cluster: what a crashed run left is ended, strangers are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cluster.processes import MARK, Processes, ServerDiedError

ROOT = Path(__file__).parents[3]
LASTS = [sys.executable, "-c", "import time; time.sleep(60)"]
STARTS_ONE = """
import sys, time
from pathlib import Path
from tests.cluster.processes import Processes
Processes(Path(sys.argv[1])).start("server", [sys.executable, "-c", "import time; time.sleep(60)"])
print("started", flush=True)
time.sleep(60)
"""


def servers_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get(MARK) == str(folder)
        except psutil.Error:
            continue
        if is_ours and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def start_and_kill_a_run(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, str(folder)], stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        run.send_signal(signal.SIGKILL)


def test_what_a_killed_run_left_is_ended(tmp_path):
    start_and_kill_a_run(tmp_path)
    assert len(servers_of(tmp_path)) == 1

    Processes(tmp_path).stop()

    assert servers_of(tmp_path) == []


def test_a_server_of_which_nothing_was_written_down_is_ended(tmp_path):
    start_and_kill_a_run(tmp_path)
    (tmp_path / "processes.json").unlink()

    Processes(tmp_path).stop()

    end = time.monotonic() + 10
    while servers_of(tmp_path):
        assert time.monotonic() < end


def test_a_stranger_with_a_pid_of_ours_lives_on(tmp_path):
    processes = Processes(tmp_path)
    (tmp_path / "processes.json").write_text(f'{{"server": [{os.getpid()}, 1.0]}}')

    assert processes.dead() == ["server"]
    processes.stop()  # else this test would not go on


def test_a_server_that_died_is_named_with_its_last_lines(tmp_path):
    processes = Processes(tmp_path)
    processes.start("server", [sys.executable, "-c", "print('no such file'); raise SystemExit(3)"])

    with pytest.raises(ServerDiedError, match=r"server ended while starting:\nno such file"):
        processes.wait("server", lambda: False, 30)

    assert processes.dead() == ["server"]
    processes.stop()


def test_a_server_that_is_never_ready_is_waited_for_only_so_long(tmp_path):
    processes = Processes(tmp_path)
    processes.start("server", LASTS)

    with pytest.raises(ServerDiedError, match="server was not ready within 0 s"):
        processes.wait("server", lambda: False, 0)
    processes.stop()

    assert servers_of(tmp_path) == []
