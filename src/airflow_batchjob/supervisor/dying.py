"""Wait for a Job that is on its way out, and say who keeps it from going."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiUnavailableError, NotFoundError
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.core.wording import counted
from airflow_batchjob.supervisor.sideways import CONTROLLER_UID

LONGEST_SECONDS = 600.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0
_SAY_EVERY_SECONDS = 60.0
_MOST_NAMES = 5


class Dying:
    """Waits for one Job after another, each for at most ten minutes."""

    def __init__(self, client: JobClient, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._client, self._log, self._clock = client, log, clock

    async def wait(self, ref: JobRef) -> None:
        """Return when the Job is final or gone.

        Raises:
            ApiUnavailableError: It is neither after ten minutes; names the pods and nodes that hold it.
        """
        began, pause, said_at = self._clock(), _FIRST_PAUSE_SECONDS, float("-inf")
        while (words := await self._still_there(ref)) is not None:
            now = self._clock()
            if now - began >= LONGEST_SECONDS:
                raise await self._error(ref)
            if now - said_at >= _SAY_EVERY_SECONDS:
                self._log.info("Waiting for Job %s to be gone: %s", ref, words)
                said_at = now
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)

    async def _still_there(self, ref: JobRef) -> str | None:
        """Return what holds it in words; None once it is final or gone."""
        try:
            job = await self._client.get_job(ref.namespace, ref.name)
        except NotFoundError:
            return None
        except ApiUnavailableError as error:
            return str(error)
        if job.metadata.uid != ref.uid or read_status(job).phase.is_final:
            return None
        left = max(job.status.terminating or 0, job.status.active)
        return f"{counted(left, 'pod is', 'pods are')} still there"

    async def _error(self, ref: JobRef) -> ApiUnavailableError:
        held = "its pods can't be listed"
        try:
            page = await self._client.list_pods(ref.namespace, f"{CONTROLLER_UID}={ref.uid}")
        except ApiError as error:
            held = f"{held}: {error}"
        else:
            pods = [
                f"{pod.name} on node {pod.spec.node_name or '(none)'}"
                for pod in page.items
                if not pod.is_over
            ]
            more = f" and {len(pods) - _MOST_NAMES} more" if len(pods) > _MOST_NAMES else ""
            held = f"held by {', '.join(pods[:_MOST_NAMES])}{more}" if pods else "none of its pods is left"
        return ApiUnavailableError(
            f"wait for Job {ref} to be gone",
            message=f"still there after {LONGEST_SECONDS / 60:.0f} min, {held}. If a node's machine is gone, "
            "delete the Node or taint it node.kubernetes.io/out-of-service",
        )
