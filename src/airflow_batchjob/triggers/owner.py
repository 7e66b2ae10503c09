"""The task that owns a Job, as a sensor's wait asks about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from airflow_batchjob.core.identity.marks import OURS, read_marks
from airflow_batchjob.core.identity.names import TASK, TaskIdentity
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.tasks import FINAL_STATES, TaskKey, return_value, task_state

_ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class AirflowOwner:
    """Implements `supervisor.observe.Owner`.

    Attributes:
        instance: The name of this Airflow: tasks of another can't be asked about.
        task: The owning task where it is known; None: the Job itself says whose it is.
    """

    instance: str
    task: TaskKey | None = None

    async def is_final(self, job: Job | None) -> bool:
        """Tell whether no task will bring another generation. No answer from Airflow means no."""
        task = self.task or self._written_on(job)
        if task is None:
            # Nobody's Job is final as it is; without any Job there is nothing to say yet.
            return job is not None
        state = await task_state(task, timeout_seconds=_ASK_SECONDS)
        return state in FINAL_STATES

    async def result(self) -> Mapping[str, Any] | None:
        """Return what the owning task returned."""
        if self.task is None:
            return None
        told = await return_value(self.task)
        return told if isinstance(told, Mapping) else None

    def _written_on(self, job: Job | None) -> TaskKey | None:
        if job is None or read_marks(job).managed_by != OURS:
            return None
        try:
            found = msgspec.json.decode(job.metadata.annotations.get(TASK, ""), type=TaskIdentity)
        except msgspec.MsgspecError:
            return None
        if found.instance != self.instance:
            return None
        return TaskKey(found.dag_id, found.run_id, found.task_id, found.map_index)
