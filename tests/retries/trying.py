"""Tries of a task, one after the other, as worker and triggerer make them: submit, supervise, conclude."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.submit import submit
from airflow_batchjob.supervisor.supervise import supervise
from tests.contract.asking import Asker, Object
from tests.contract.living import conditions, index_of

LOG = logging.getLogger("tests.retries")

ODD_FAIL_FIRST = "[ $GENERATION -gt 0 ] || exit $((JOB_COMPLETION_INDEX % 2))"
LASTS = "trap 'exit 143' TERM; while :; do sleep 0.1; done"

# Which generation it is, read where digests don't look: the value is the label's, the field is the same.
GENERATION = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['airflow-batchjob/generation']"}}}


def request(
    script: str = ODD_FAIL_FIRST, *, completions: int = 6, try_number: int = 1, **fields: Any
) -> Request:
    """Return what a try asks: an Indexed Job whose indexes run a shell script.

    Args:
        script: Knows `$JOB_COMPLETION_INDEX` and `$GENERATION`.
        completions: How many.
        try_number: Of three.
        fields: Of the `Request`; those of a `JobSpec` go there.
    """
    spec = {
        key: fields.pop(key) for key in list(fields) if key in JobSpec.__dataclass_fields__ and key != "name"
    }
    env = {"GENERATION": GENERATION} | spec.pop("env", {})
    grace = {"terminationGracePeriodSeconds": 2}
    asked = JobSpec(
        image="busybox:1.36",
        command=["sh", "-c", script],
        env=env,
        completions=completions,
        pod=spec.pop("pod", grace),
        **{"parallelism": 6} | spec,
    )
    built = build(asked, default_name="work")
    defaults: dict[str, Any] = {
        "manifest": built.manifest,
        "thresholds": built.thresholds,
        "identity": TaskIdentity("prod", "nightly", "run-1", "work"),
        "holder": f"ti/{try_number}",
        "try_number": try_number,
        "retries": 2,
        "max_tries": 2,
        "logs": "none",
    }
    return Request(**(defaults | fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A namespace of a cluster, where tries are made."""

    api: Asker
    kubeconfig: Path
    seen: list[Verdict] = field(default_factory=list)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[JobClient]:
        settings = ClusterSettings(kube_config_path=str(self.kubeconfig), namespace=self.api.namespace)
        async with await connect(settings) as client:
            yield client

    async def submit(self, asked: Request, record: Record | None = None) -> Order | Verdict:
        async with self.client() as client:
            return await submit(client, self.here(asked), log=LOG, record=record)

    async def order(self, asked: Request, record: Record | None = None) -> Order:
        answer = await self.submit(asked, record)
        assert isinstance(answer, Order)
        return answer

    async def run(
        self,
        asked: Request,
        record: Record | None = None,
        *,
        report: bool = True,
        through: Through | None = None,
    ) -> Verdict:
        """Make a try, to its end; `report`: False as if it died before it could tell."""
        async with self.client() as plain:
            client = plain if through is None else through(plain)
            answer = await submit(client, self.here(asked), log=LOG, record=record)
            if isinstance(answer, Order):
                order, verdict = answer, await supervise(client, answer, log=LOG)
            else:
                order, verdict = self.here(asked).order(answer.job, answer.generation), answer
            return await conclude(client, order, verdict, log=LOG) if report else verdict

    def here(self, asked: Request) -> Request:
        return replace(asked, namespace=self.api.namespace)

    def jobs(self) -> list[Object]:
        """Return all Jobs, the oldest generation first."""
        items: list[Object] = self.api.ask("GET", self.api.jobs()).body["items"]
        return sorted(
            items, key=lambda job: int(job["metadata"]["labels"].get("airflow-batchjob/generation", 0))
        )

    def job(self, generation: int = -1) -> Object:
        return self.jobs()[generation]

    def alive(self) -> list[str]:
        over = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"}
        return [
            job["metadata"]["name"] for job in self.jobs() if not over & {kind for kind, _ in conditions(job)}
        ]

    def pods(self, name: str | None = None) -> list[Object]:
        items: list[Object] = self.api.ask("GET", self.api.core("pods")).body["items"]
        return [
            pod for pod in items if name in (None, pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])
        ]

    def ran(self, generation: int) -> list[int]:
        """Return the indexes that had a pod in one generation."""
        name = self.job(generation)["metadata"]["name"]
        return sorted({index for pod in self.pods(name) if (index := index_of(pod)) is not None})

    def successes(self) -> Counter[int]:
        """Return how often each index has succeeded, over all generations."""
        return Counter(
            index
            for pod in self.pods()
            if pod["status"]["phase"] == "Succeeded" and (index := index_of(pod)) is not None
        )

    def annotation(self, key: str, generation: int = -1) -> str:
        return str(self.job(generation)["metadata"]["annotations"].get(f"airflow-batchjob/{key}", ""))


Through = Callable[[JobClient], JobClient]


def odds(completions: int = 6) -> Sequence[int]:
    return range(1, completions, 2)
