"""PostgreSQL of the distribution, with a data folder and a port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.cluster.processes import Processes

READY_SECONDS = 60.0
INSTALL_SECONDS = 300.0
USER = "postgres"  # PostgreSQL refuses to run as root
NEVER_SAFE = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")  # the data dies with the run


class MissingPostgresError(RuntimeError):
    """There is no PostgreSQL, and the message says how to get one."""


def programs() -> Path:
    """Return the folder of the newest initdb and postgres.

    Raises:
        MissingPostgresError: There is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise MissingPostgresError("PostgreSQL is not installed; mend: apt-get install postgresql")
    return Path(on_path).parent


def install_postgres() -> None:
    """Install the distribution's PostgreSQL where there is none, as root on Debian and its kin.

    Raises:
        MissingPostgresError: It can't be installed here.
    """
    try:
        programs()
    except MissingPostgresError:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise
        quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
        for words in (["update", "-qq"], ["install", "-qq", "--no-install-recommends", "postgresql"]):
            ended = subprocess.run(
                ["apt-get", *words],
                check=False,
                capture_output=True,
                text=True,
                env=quiet,
                timeout=INSTALL_SECONDS,
            )
            if ended.returncode:
                raise MissingPostgresError(f"apt-get {words[0]} failed: {ended.stderr[-500:]}") from None
        programs()


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_postgres(processes: Processes, folder: Path) -> str:
    """Make a database `airflow` and serve it; return its address as SQLAlchemy writes it."""
    bin_folder, data, port = programs(), folder / "data", free_port()
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    made: list[str | Path] = [
        *_as_user(),
        bin_folder / "initdb",
        "-D",
        data,
        "-U",
        "airflow",
        "-A",
        "trust",
        "--no-sync",
    ]
    subprocess.run(made, check=True, capture_output=True, timeout=READY_SECONDS, cwd="/")
    served: list[str | Path] = [
        *_as_user(),
        bin_folder / "postgres",
        "-D",
        data,
        "-p",
        str(port),
        "-k",
        folder,
    ]
    settings = [word for setting in NEVER_SAFE for word in ("-c", setting)]
    processes.start("postgres", [*served, "-c", "listen_addresses=127.0.0.1", *settings])
    is_ready = [bin_folder / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    processes.wait(
        "postgres",
        lambda: subprocess.run(is_ready, check=False, timeout=READY_SECONDS).returncode == 0,
        READY_SECONDS,
    )
    return f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"


def _as_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
