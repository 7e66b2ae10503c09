"""Holds what tasks were told against what the cluster did: from its own history, not through the proxy."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.local.reach import Reach
from tests.faults.tiny_airflow import Task
from tests.faults.work import Kind, Records

GENERATION = "airflow-batchjob/generation"
REPORTED = "airflow-batchjob/reported"
TASK = "airflow-batchjob/task"
JOBS, PODS = "/apis/batch/v1/jobs", "/api/v1/pods"


def is_final(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def task_of(job: dict[str, Any]) -> str:
    """Return the id of the task that a Job is of."""
    return str(json.loads(job["metadata"].get("annotations", {}).get(TASK, "{}")).get("task_id", ""))


@dataclass
class History:
    """Every Job that there ever was, as it was last, and where two of one task were alive at once."""

    reach: Reach
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)  # by uid
    alive: dict[str, set[str]] = field(default_factory=dict)  # uids by task
    doubled: list[str] = field(default_factory=list)

    async def keep(self) -> None:
        """Watch until cancelled."""
        version = self.reach.ask("GET", JOBS)["metadata"]["resourceVersion"]
        trusted = ssl.create_default_context(cadata=self.reach.authority)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusted),
            headers={"Authorization": f"Bearer {self.reach.token}"},
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=1 << 24,
        ) as session:
            url = f"{self.reach.url}{JOBS}?watch=1&timeoutSeconds=86000&resourceVersion={version}"
            async with session.get(url) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event
                    self.see(event["type"], event["object"])

    def see(self, what: str, job: dict[str, Any]) -> None:
        uid, task = job["metadata"]["uid"], task_of(job)
        self.jobs[uid] = job
        alive = self.alive.setdefault(task, set())
        if what == "DELETED" or is_final(job):
            alive.discard(uid)
        else:
            alive.add(uid)
        if len(alive) > 1:
            self.doubled.append(f"{task}: {len(alive)} Jobs were alive at once")

    def of(self, task: Task) -> list[dict[str, Any]]:
        """Return a task's Jobs by generation."""
        found = [job for job in self.jobs.values() if task_of(job) == task.task_id]
        return sorted(found, key=_generation)


def _generation(job: dict[str, Any]) -> int:
    return int(job["metadata"]["labels"][GENERATION])


async def left_over(reach: Reach, limit_seconds: float = 30.0) -> list[str]:
    """Return Jobs that have not ended and pods that still run, once there was time enough to end."""
    loop = asyncio.get_running_loop()
    due = loop.time() + limit_seconds
    while True:
        jobs, pods = (reach.ask("GET", path)["items"] for path in (JOBS, PODS))
        left = [f"Job {job['metadata']['name']} still runs" for job in jobs if not is_final(job)]
        left += [
            f"pod {pod['metadata']['name']} is still {pod['status'].get('phase')}"
            for pod in pods
            if pod["status"].get("phase") in ("Pending", "Running")
        ]
        if not left or loop.time() > due:
            return left
        await asyncio.sleep(0.3)


def problems(task: Task, history: History) -> list[str]:
    """Return what is wrong with a task's end; nothing, if all is well."""
    plan, records, jobs = task.plan, Records(task.records), history.of(task)
    found: list[str] = []
    want = "success" if plan.succeeds else "failed"
    if task.state != want:
        found.append(f"is {task.state}, {want} is wanted")
    generations = [_generation(job) for job in jobs]
    if generations != list(range(len(jobs))):
        found.append(f"has the generations {generations}")
    if len(jobs) not in plan.generations_wanted(task.tries):
        found.append(f"had {len(jobs)} Jobs in {task.tries} tries")
    for index in range(plan.completions):
        runs = plan.runs_wanted(index, len(jobs))
        if records.starts[index] not in runs:
            found.append(f"index {index} ran {records.starts[index]} times, {list(runs)} are wanted")
    found += _wrong_words(task, records)
    if jobs and not _was_cut(task) and REPORTED not in jobs[-1]["metadata"]["annotations"]:
        found.append("was not reported on its last Job")
    words = f"task {plan.number} ({plan.kind.value}, {'deferred' if plan.deferrable else 'in the worker'})"
    return [f"{words} {one}; {task.history}" for one in found]


def _was_cut(task: Task) -> bool:
    """Tell whether the last try was ended from outside: then it tells no verdict."""
    why = task.told[-1].why if task.told else ""
    return task.plan.kind is Kind.MARKED_FAILED or why.startswith("AirflowTaskTimeout")


def _wrong_words(task: Task, records: Records) -> list[str]:
    """Return what the last verdict says of indexes that is not so."""
    last = task.told[-1] if task.told else None
    if last is None or "verdict" not in last.xcoms:
        return [] if _was_cut(task) else ["was told no verdict"]
    truly, said = IndexSet.of(records.succeeded), IndexSet.parse(last.xcoms["succeeded_indexes"])
    # What ends well while its Job is being ended may count or not: Kubernetes decides.
    at_the_end = task.plan.kind is Kind.RULED_OUT and not said - truly
    found = [] if said == truly or at_the_end else [f"says that {said} succeeded, and {truly} did"]
    met = last.xcoms["verdict"] == "met"
    if met != (last.state == "success"):
        found.append(f"ended as {last.state} with the verdict {last.xcoms['verdict']}")
    return found
