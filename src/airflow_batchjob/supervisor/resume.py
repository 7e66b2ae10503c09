"""A follow-up Job that is told what is done already, before it runs anything.

Created suspended and marked "preparing"; then its status is told the completed indexes; then one
patch lets it run and takes the mark away. Each patch holds only for the version that was read while the
mark stood, so whoever finds the Job half made goes on, and a late repetition changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ApiUnavailableError, NotFoundError
from airflow_batchjob.core.identity.marks import (
    ASSERTED,
    PREPARING,
    QUEUE_LABEL,
    RERUN,
    RESUMES,
    UNDER_WAY,
    read_marks,
)
from airflow_batchjob.core.identity.resuming import Source
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.supervisor.patches import (
    Operation,
    drop_annotation,
    if_unchanged,
    is_changed_meanwhile,
    put,
)

MISSING_RULE = """\
  - apiGroups: [batch]
    resources: [jobs/status]
    verbs: [patch]"""
"""What a Role must have so that finished indexes can be kept."""

_MOST_ROUNDS = 15  # of losing a race against the Job controller, which writes the status of a new Job
_AGAIN_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 3.0
_QUEUE_PATH = "/metadata/labels/" + QUEUE_LABEL.replace("/", "~1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What a half made Job is told, and how it is let go.

    Attributes:
        indexes: What is completed.
        holder: Who prepares it; another holder ends that.
        queue: Kueue's queue. The Job gets it last, for the queue lets it run then; "": none.
        stays_suspended: Its author wants it suspended.
        asked_on: The Job on which a person asked for indexes by name: to run all in their place is no
            way out. None: nobody did.
    """

    indexes: IndexSet
    holder: str
    queue: str = ""
    stays_suspended: bool = False
    asked_on: JobRef | None = None

    @classmethod
    def of(cls, source: Source, manifest: Mapping[str, Any], namespace: str, holder: str) -> Telling:
        """Return what the Job that `half_made` makes of `manifest` is told."""
        labels = (manifest.get("metadata") or {}).get("labels") or {}
        spec = manifest.get("spec") or {}
        return cls(
            indexes=source.told(spec["completions"]),
            holder=holder,
            queue=labels.get(QUEUE_LABEL, ""),
            stays_suspended=bool(spec.get("suspend")),
            asked_on=None if source.asked is None else JobRef(namespace, source.name, source.uid),
        )


def half_made(manifest: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return a marked manifest as it is created: suspended, in no queue, saying what it goes on from.

    Args:
        manifest: Of an Indexed Job, with name, labels and annotations of ours. Not changed.
        source: What stands of an earlier generation.
    """
    metadata, spec = dict(manifest["metadata"]), dict(manifest["spec"])
    annotations = {**metadata["annotations"], RESUMES: source.mark.to_text(), UNDER_WAY: PREPARING}
    if asserted := source.asserted(spec["completions"]):
        annotations[ASSERTED] = str(asserted)
    labels = {key: value for key, value in metadata["labels"].items() if key != QUEUE_LABEL}
    if source.asked is not None:
        spec.pop("successPolicy", None)  # what is only asserted would meet it at once
    return {
        **manifest,
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": {**spec, "suspend": True},
    }


async def prepare(client: JobClient, job: Job, telling: Telling, *, log: logging.Logger) -> Job | None:
    """Tell a half made Job what is done, and let it run. Safe to repeat and to cut anywhere.

    Args:
        client: The cluster.
        job: As created, or as found with the mark "preparing".
        telling: What it is told.
        log: Gets one warning where the right to tell it is missing: then everything runs.

    Returns:
        The Job as it is now: prepared by this call or by another process, or held by another try. None
        if it is gone.

    Raises:
        ApiRefusedError: The right is missing, and indexes were asked for by name; the Job is deleted.
        ApiUnavailableError: The API does not answer.
    """
    preparing = _Preparing(client, job.ref, telling, log)
    for attempt in range(_MOST_ROUNDS):
        marks = read_marks(job)
        if not marks.is_preparing or marks.holder != telling.holder:
            return job
        try:
            return await preparing.step(job)
        except NotFoundError:
            return None
        except ApiUnavailableError as error:
            log.warning("No answer while Job %s is prepared, looking how far it is: %s", job.ref, error)
        except ApiError as error:
            if not is_changed_meanwhile(error):
                raise
            await preparing.refused(error, job)
        await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, _AGAIN_SECONDS * 2**attempt))
        found = await preparing.read()
        if found is None:
            return None
        job = found
    raise ApiUnavailableError(
        f"prepare Job {job.ref}", message=f"it had changed again, {_MOST_ROUNDS} times; what writes to it?"
    )


def is_told(job: Job, indexes: IndexSet) -> bool:
    """Tell whether Kubernetes takes `indexes` of `job` for completed."""
    return not indexes - IndexSet.parse(job.status.completed_indexes)


class _Preparing:
    def __init__(self, client: JobClient, ref: JobRef, telling: Telling, log: logging.Logger) -> None:
        self._client, self._ref, self._telling, self._log = client, ref, telling, log
        self._gave_up = False  # nothing can be told, everything runs
        self._refused_at = ""  # resource version for which a patch was refused

    async def step(self, job: Job) -> Job:
        if not self._gave_up and not is_told(job, self._telling.indexes):
            job = await self._tell(job)
        return await self._let_go(job)

    async def read(self) -> Job | None:
        try:
            job = await self._client.get_job(self._ref.namespace, self._ref.name)
        except NotFoundError:
            return None
        return job if job.metadata.uid == self._ref.uid else None

    async def refused(self, error: ApiError, job: Job) -> None:
        """Tell a Job that changed meanwhile from a patch that the API won't have on this very version."""
        version = job.metadata.resource_version
        if self._refused_at == version and not is_told(job, self._telling.indexes):
            await self._give_up(str(error), code=error.code)
        self._refused_at = version

    async def _tell(self, job: Job) -> Job:
        # The ranges alone: the controller counts them itself, and stumbles over a count that is too high.
        operations = [*if_unchanged(job), put("/status/completedIndexes", str(self._telling.indexes))]
        try:
            return await self._client.patch_job_status(self._ref.namespace, self._ref.name, operations)
        except ApiRefusedError as error:
            if error.code != 403:
                raise
            namespace = self._ref.namespace
            rule = f"Add this rule to the Role of the account in namespace {namespace}:\n{MISSING_RULE}"
            await self._give_up(f"the right to patch jobs/status is missing. {rule}", code=403)
            return job

    async def _give_up(self, why: str, *, code: int) -> None:
        """Let all of it run, which is said; where indexes were asked for by name, that is no way out."""
        if self._telling.asked_on is None:
            self._gave_up = True
            self._log.warning("Job %s can't be told what is done, so all of it runs: %s", self._ref, why)
            return
        # Left half made, it would keep every other try from being made.
        await self._client.delete_job(self._ref.namespace, self._ref.name, uid=self._ref.uid)
        what = f"tell Job {self._ref} what is done, so that only the indexes asked for run"
        raise ApiRefusedError(what, code=code, message=why)

    async def _let_go(self, job: Job) -> Job:
        telling = self._telling
        operations = [*if_unchanged(job), drop_annotation(UNDER_WAY)]
        if telling.queue:
            operations.append(put(_QUEUE_PATH, telling.queue))
        elif not telling.stays_suspended:
            operations.append(put("/spec/suspend", value=False))
        done = await self._client.patch_job(self._ref.namespace, self._ref.name, operations)
        await self._forget_request()
        return done

    async def _forget_request(self) -> None:
        """Take the request off the Job that carried it: should the new one vanish, it is not repeated."""
        asked_on = self._telling.asked_on
        if asked_on is None:
            return
        operations: list[Operation] = [
            {"op": "test", "path": "/metadata/uid", "value": asked_on.uid},
            drop_annotation(RERUN),
        ]
        try:
            await self._client.patch_job(asked_on.namespace, asked_on.name, operations)
        except ApiError as error:
            self._log.debug("The request stays on Job %s: %s", asked_on, error)
