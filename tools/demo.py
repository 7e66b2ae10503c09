"""Run the example pipeline in Airflow, on a local cluster of its own: what `make demo` does.

All that it writes is in build/demo. Airflow runs in a process of its own, with JSON logs; what its
tasks say is shown here as it comes, and the rest of Airflow's log goes to a file.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "demo"
CLUSTER, OUTPUT, LOG = BUILD / "cluster", BUILD / "output", BUILD / "airflow.log"
STARTED = time.monotonic()
STOP_SECONDS = 20
LOOK_SECONDS, LINE_SECONDS, BAR = 0.5, 3.0, 32
CLEAR = "\r\x1b[2K"  # the live line of a terminal

PIPELINE = """
import json, sys
from parse_python_sources import dag
run = dag.test(run_conf={"folder": sys.argv[1]})
sys.exit(run.state != "success")
"""


def main() -> int:
    """Start the cluster, run the pipeline, tell where the report is, and stop the cluster."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    say("starting a local cluster" + ("" if database_made().exists() else ", making Airflow's database"))
    with LOG.open("w") as log, local_cluster() as connection:
        environment = airflow_environment() | connection
        make_database(environment, log)
        say("Airflow starts, and runs dags/parse_python_sources.py")
        with live_progress():
            ended = run_pipeline(environment, log)
    if ended:
        say(f"the pipeline failed; Airflow's log: {shown(LOG)}")
        return 1
    tell_the_report()
    return 0


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"{CLEAR if sys.stdout.isatty() else ''}{clock()}  {text}", flush=True)


def clock() -> str:
    return f"demo {time.monotonic() - STARTED:5.1f} s"


def shown(path: Path) -> str:
    """Return a path as one would type it in the project's folder."""
    return str(path.relative_to(ROOT))


@contextmanager
def local_cluster(*options: str) -> Iterator[dict[str, str]]:
    """Run a local cluster, with further options of its command; yield what points an Airflow at it."""
    command = [str(Path(sys.executable).with_name("batchjob")), "local"]
    folder = ["--folder", str(CLUSTER)]
    subprocess.run([*command, "stop", *folder], check=False, capture_output=True, timeout=STOP_SECONDS)
    started = subprocess.run(
        [*command, "start", *folder, *options], check=True, capture_output=True, text=True, timeout=60
    )
    try:
        yield variables(started.stdout)
    finally:
        subprocess.run([*command, "stop", *folder], check=False, capture_output=True, timeout=STOP_SECONDS)


def variables(printed: str) -> dict[str, str]:
    """Return the `export NAME=value` lines of what `batchjob local start` prints."""
    words = [word for line in printed.splitlines() for word in shlex.split(line, comments=True)]
    return dict(word.split("=", 1) for word in words if word.startswith("AIRFLOW_CONN_"))


@contextmanager
def live_progress() -> Iterator[None]:
    """Show how far the Job on the cluster is, beside what the task's own log says every 30 s."""
    over = threading.Event()
    watching = threading.Thread(target=watch_progress, args=[over], daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join(STOP_SECONDS)


def watch_progress(over: threading.Event) -> None:
    """Look at the newest Job until `over`: one live line on a terminal, else a line now and then."""
    import msgspec

    from airflow_batchjob.core.reading.job import Job
    from airflow_batchjob.core.reading.status import read_status
    from airflow_batchjob.core.telling.progress import Progress, progress_line
    from airflow_batchjob.local.reach import Reach

    reach, progress, said = Reach.by_kubeconfig(CLUSTER / "kubeconfig"), Progress(), time.monotonic()
    while not over.wait(LOOK_SECONDS):
        for job in msgspec.convert(reach.ask("GET", "/apis/batch/v1/jobs")["items"], list[Job]):
            progress = progress.seen(read_status(job), time.time())
            if progress.final or not progress.completions:
                continue
            filled = BAR * progress.done // progress.completions
            line = f"{'█' * filled}{'░' * (BAR - filled)} {progress_line(progress)}"
            if sys.stdout.isatty():
                print(f"{CLEAR}{clock()}  {line}", end="", flush=True)
            elif time.monotonic() - said >= LINE_SECONDS:
                said = time.monotonic()
                say(line)


def airflow_environment() -> dict[str, str]:
    """Return an environment for Airflow in which nothing of another Airflow is left."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return kept | {
        "AIRFLOW_HOME": str(BUILD / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__JSON_LOGS": "True",
        "PYTHONPATH": str(ROOT / "dags"),
        "PYTHONUNBUFFERED": "1",
    }


def database_made() -> Path:
    """Return the file that says that Airflow's database is there."""
    return BUILD / "airflow" / "made"


def make_database(environment: dict[str, str], log: Any) -> None:
    """Make Airflow's database, the first time."""
    if not database_made().exists():
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        subprocess.run(command, env=environment, check=True, stdout=log, stderr=log, timeout=120)
        database_made().touch()


def run_pipeline(environment: dict[str, str], log: Any, pipeline: str = PIPELINE) -> int:
    """Run it, show what its tasks say; return the exit code."""
    command = [sys.executable, "-c", pipeline, str(OUTPUT)]
    # A group of its own: Ctrl-C reaches this process, which then ends that one in good order.
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stdout or ():
            log.write(line)
            if text := of_a_task(line):
                say(text)
        return process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def of_a_task(line: str) -> str:
    """Return what a task says in a line of Airflow's log, "" where it is Airflow who speaks."""
    if not line.startswith("{"):
        return line.rstrip()  # printed
    entry = json.loads(line)
    spoken = str(entry.get("logger", "")).startswith(
        ("airflow.task.operators.airflow_batchjob", "airflow_batchjob")
    )
    return str(entry["event"]) if spoken or entry.get("level") == "error" else ""


def tell_the_report() -> None:
    """Print the figures and where to look."""
    (folder,) = OUTPUT.iterdir()
    print(f"\n  report   {shown(folder / 'report.html')}")
    print(f"  picture  {shown(folder / 'report.svg')}\n")
    say("done; the local cluster is stopped")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; the local cluster and its processes are stopped")
        sys.exit(130)
