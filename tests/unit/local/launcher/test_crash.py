"""What a server has started ends with it, however it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

_SERVER = """
import asyncio, sys
from pathlib import Path
from airflow_batchjob.local.cluster import LocalCluster

async def main(folder):
    async with LocalCluster(folder / "cluster") as cluster:
        stray = f"trap '' TERM HUP; sleep 63 & echo $! >> {folder}/pids; wait"
        script = f'trap "" TERM; setsid sh -c "$STRAY" & echo $! >> {folder}/pids; wait'
        env = [{"name": "STRAY", "value": stray}]
        container = {"name": "main", "command": ["sh", "-c", script], "env": env}
        spec = {"restartPolicy": "Never", "containers": [container]}
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": {}}
        cluster.store.create("pods", pod)
        await asyncio.sleep(60)

asyncio.run(main(Path(sys.argv[1])))
"""

LIMIT_SECONDS = 15.0


async def _until(true: object) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
async def test_no_process_outlives_a_server(tmp_path: Path, number: int) -> None:
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVER, str(tmp_path))
    pids = tmp_path / "pids"
    await _until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    started = [int(pid) for pid in pids.read_text().split()]
    launcher = psutil.Process(server.pid).children()[0].pid

    server.send_signal(number)
    await server.wait()

    await _until(lambda: not any(psutil.pid_exists(pid) for pid in [*started, launcher]))
