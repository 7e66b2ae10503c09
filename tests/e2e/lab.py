"""What a scenario has at hand: one run of a gated Job, seen from Airflow and from the cluster."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from airflow_batchjob.core.identity.marks import STOP, TASK
from airflow_batchjob.testing import Cluster
from tests.e2e.airflow import Airflow
from tests.e2e.proxy import Door
from tests.e2e.rest import TaskOf

STEP_SECONDS = 100.0
"""Longest wait for one step: a worker's start takes Airflow 5 s on two idle cores, 30 s on busy ones."""

SLOW_SECONDS = 1.0

FINAL = ("Complete", "Failed")

_RUNS = itertools.count()


def until(what: str, look: Callable[[], Any], seconds: float = STEP_SECONDS, pause: float = 0.25) -> Any:
    """Wait until `look()` is true, and return what it returned."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(pause)
    return seen


@dataclass(frozen=True)
class Run:
    """One DAG run, its task `work`, and the Jobs that it has brought about."""

    lab: Lab
    task: TaskOf
    gate: Path

    def jobs(self) -> list[dict[str, Any]]:
        """Return the Jobs of this task in this run, the oldest first."""
        path = f"/apis/batch/v1/namespaces/{self.lab.cluster.namespace}/jobs"
        found = [job for job in self.lab.cluster.reach.ask("GET", path)["items"] if self._is_ours(job)]
        return sorted(found, key=lambda job: job["metadata"]["name"])

    def _is_ours(self, job: dict[str, Any]) -> bool:
        ids = json.loads(job["metadata"]["annotations"].get(TASK, "{}"))
        return (ids.get("run_id"), ids.get("map_index", -1)) == (self.task.run_id, self.task.map_index)

    def instance(self, map_index: int) -> Run:
        """Return one instance of a mapped task; all wait for the same gate."""
        return replace(self, task=replace(self.task, map_index=map_index))

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of these Jobs that have not ended."""
        owners = {job["metadata"]["uid"] for job in self.jobs()}
        path = f"/api/v1/namespaces/{self.lab.cluster.namespace}/pods"
        return [
            pod
            for pod in self.lab.cluster.reach.ask("GET", path)["items"]
            if {ref["uid"] for ref in pod["metadata"].get("ownerReferences", [])} & owners
            and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]

    def job(self) -> dict[str, Any]:
        """Return the one Job that there is."""
        (found,) = self.jobs()
        return found

    def open_gate(self) -> None:
        """Let the Job's pods end with success."""
        self.gate.touch()

    def fail_index(self, index: int) -> None:
        """Let this index fail once the gate is open."""
        Path(f"{self.gate}.{index}").write_text("3")

    def succeed_index(self, index: int) -> None:
        Path(f"{self.gate}.{index}").unlink()

    def started(self) -> list[str]:
        """Return the indexes that were started, once for each start."""
        beside = Path(f"{self.gate}.started")
        return sorted(beside.read_text().split()) if beside.exists() else []

    def wait_until_waiting(self) -> None:
        """Wait until the pods run, and the task waits for them in the worker or in the triggerer."""
        until(f"the pods of {self} run", self.both_run)
        if self.waits_in_worker:
            until(f"{self} is running", lambda: self.task.state == "running")
        else:
            until(f"{self} is deferred, and its trigger runs", self.is_watched)

    @property
    def waits_in_worker(self) -> bool:
        return "in_worker" in self.task.dag_id

    def is_watched(self) -> bool:
        """Tell whether a triggerer runs the trigger of the present try: it says how far the Job is."""
        if self.task.state != "deferred":
            return False
        return "2 running" in self.lab.airflow.trigger_log(self.task)

    def wait_for_try(self, number: int) -> None:
        until(f"{self} is in try {number}", lambda: self.task.read()["try_number"] == number)

    def kill_process(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the task's own process: with SIGKILL, as the kernel does when memory is short."""
        psutil.Process(self.task.read()["pid"]).send_signal(number)

    def triggerer(self) -> int | None:
        """Return the triggerer that Airflow has given this task's trigger to."""
        job = self.task.read()["triggerer_job"]
        return None if job is None else int(job["id"])

    def has_run_once(self) -> None:
        """Check that one Job did the work, each index once, and that nothing is left."""
        assert len(self.jobs()) == 1
        assert self.started() == ["0", "1"]
        self.wait_until_over()

    def stop_reason(self) -> str:
        """Return why the Job was stopped, as written on it."""
        mark = json.loads(self.job()["metadata"]["annotations"].get(STOP, "{}"))
        return str(mark.get("words", ""))

    def log(self) -> str:
        return self.lab.airflow.task_log(self.task)

    def both_run(self) -> bool:
        return len(self.started()) >= 2

    def wait_for(self, state: str, seconds: float = STEP_SECONDS) -> None:
        until(f"{self} is {state}", lambda: self.task.state == state, seconds)

    def wait_until_over(self, seconds: float = STEP_SECONDS) -> None:
        """Wait until no Job of this run has anything left to do."""
        until(f"no Job of {self} is left", lambda: all(is_over(job) for job in self.jobs()), seconds)
        until(f"no pod of {self} is left", lambda: not self.pods(), seconds)

    def __str__(self) -> str:
        return self.task.run_id


def is_over(job: dict[str, Any]) -> bool:
    return any(
        condition["type"] in FINAL and condition["status"] == "True"
        for condition in job["status"].get("conditions", [])
    )


@dataclass
class Lab:
    """An Airflow, a cluster, and the doors between them."""

    airflow: Airflow
    cluster: Cluster
    outage: Door
    slow: Door
    gates: Path
    runs: list[Run] = field(default_factory=list)

    def begin(self, dag_id: str) -> Run:
        """Trigger a DAG whose Job waits for its gate."""
        run_id = f"{dag_id}-{next(_RUNS)}"
        gate = self.gates / run_id
        run = Run(self, TaskOf(self.airflow.rest, dag_id, run_id), gate)
        self.airflow.rest.trigger(dag_id, run_id, {"gate": str(gate)})
        self.runs.append(run)
        return run

    def left_over(self) -> list[str]:
        """Return the Jobs that are not over, of whatever run."""
        path = f"/apis/batch/v1/namespaces/{self.cluster.namespace}/jobs"
        return [
            job["metadata"]["name"]
            for job in self.cluster.reach.ask("GET", path)["items"]
            if not is_over(job)
        ]

    @contextmanager
    def slow_answers(self) -> Iterator[None]:
        """Let each answer through `kubernetes_slow` take a second: time to do something meanwhile."""
        self.slow.delay_seconds = SLOW_SECONDS
        try:
            yield
        finally:
            self.slow.delay_seconds = 0.0

    @contextmanager
    def shut_out(self) -> Iterator[None]:
        """Let nobody reach the cluster through the connection `kubernetes_outage`."""
        self.outage.shut()
        try:
            yield
        finally:
            self.outage.open()

    def logs_of_runs(self) -> dict[str, str]:
        return {str(run): self.airflow.task_log(run.task) for run in self.runs}
