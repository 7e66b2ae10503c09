"""One Airflow: API server, scheduler, DAG processor and triggerers as processes that can be killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.cluster.processes import Processes, ServerDiedError
from tests.e2e.postgres import free_port
from tests.e2e.rest import Rest, TaskOf

DAGS = Path(__file__).parent / "dags"
MIGRATE_SECONDS = 150.0
READY_SECONDS = 90.0
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")

# What takes Airflow minutes by default takes seconds here, in the same order.
QUICK = {
    "SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "3",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "8",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    "DAG_PROCESSOR__REFRESH_INTERVAL": "600",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "3600",
}


class Airflow:
    """An installed Airflow on a database of its own.

    Args:
        python: Of the environment that Airflow is installed in.
        folder: Airflow's home, and the logs of its processes.
        database: As SQLAlchemy writes it.
        connections: Kubernetes connections: id → extra as JSON.
    """

    def __init__(
        self, python: Path, folder: Path, processes: Processes, database: str, connections: Mapping[str, str]
    ) -> None:
        self.python, self.folder, self.processes = python, folder, processes
        port = free_port()
        self.rest = Rest(f"http://127.0.0.1:{port}")
        self._env = {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.rest.url}/execution/",
            "AIRFLOW__API__BASE_URL": self.rest.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__BATCHJOB__SECONDS_BEFORE_DEFERRING": "1",
            "NO_PROXY": "127.0.0.1",
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            **{f"AIRFLOW__{name}": value for name, value in QUICK.items()},
            **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()},
        }

    def start(self) -> None:
        """Make the database, start everything, and wait until the DAGs are known."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._migrate()
        for part in PARTS:
            self.start_part(part)
        self.processes.wait("api-server", self.rest.is_up, READY_SECONDS)
        self.processes.wait("dag-processor", lambda: "deferred" in self.rest.dag_ids(), READY_SECONDS)
        for part in ("scheduler", "triggerer"):
            self.processes.wait(part, lambda part=part: self.rest.health(part) == "healthy", READY_SECONDS)

    def start_part(self, part: str, name: str = "") -> None:
        """Start one process; a second one of its kind needs a name of its own."""
        self.processes.start(name or part, [self.python, "-m", "airflow", part], self._env)

    def kill(self, name: str) -> None:
        """End a process and all that it started with SIGKILL, as a lost machine does."""
        kill_family(self.processes, name)

    def _migrate(self) -> None:
        log = self.processes.log_of("migrate")
        with log.open("wb") as output:
            ended = subprocess.run(
                [self.python, "-m", "airflow", "db", "migrate"],
                check=False,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._env},
                timeout=MIGRATE_SECONDS,
            )
        if ended.returncode:
            raise ServerDiedError(f"airflow db migrate failed:\n{log.read_text()[-4000:]}")

    def task_log(self, task: TaskOf) -> str:
        """Return what every try of a task has logged, worker and triggerer."""
        return self._logs(task, "*.log")

    def trigger_log(self, task: TaskOf) -> str:
        """Return what the triggers of the present try have logged."""
        return self._logs(task, f"attempt={task.read()['try_number']}.log.trigger.*")

    def _logs(self, task: TaskOf, name: str) -> str:
        part = [f"map_index={task.map_index}"] if task.map_index >= 0 else []
        words = [f"dag_id={task.dag_id}", f"run_id={task.run_id}", f"task_id={task.task_id}", *part]
        found = sorted(Path(self.folder, "logs", *words).rglob(name))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}" for path in found)


def kill_family(processes: Processes, name: str) -> None:
    """End a process and all that it started. Some of these change their title and lose their mark with it."""
    members = family(processes, name)
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(members, timeout=5)
    processes.kill(name)


def end_all(processes: Processes) -> None:
    """End everything: nothing of it is needed any more, so none is asked to end."""
    for name in reversed(processes.names()):
        kill_family(processes, name)
    processes.stop()


def family(processes: Processes, name: str) -> list[psutil.Process]:
    """Return a process and all that it started."""
    try:
        head = psutil.Process(processes.pid_of(name))
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
