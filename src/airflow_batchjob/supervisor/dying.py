"""Wait for a Job that is on its way out, or for pods that outlive theirs, and say who keeps them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ApiUnavailableError, NotFoundError
from airflow_batchjob.core.identity.marks import identity_selector
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.core.wording import counted
from airflow_batchjob.supervisor.sideways import CONTROLLER_UID

LONGEST_SECONDS = 600.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0
_SAY_EVERY_SECONDS = 60.0
_MOST_NAMES = 5
_MEND_NODE = "If a node's machine is gone, delete the Node or taint it node.kubernetes.io/out-of-service"
_MEND_ORPHANS = "If their Job was deleted without them (propagationPolicy: Orphan), delete the pods."


class Dying:
    """Waits for one thing after another, each for at most ten minutes."""

    def __init__(self, client: JobClient, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._client, self._log, self._clock = client, log, clock

    async def wait(self, ref: JobRef) -> None:
        """Return when the Job is final or gone.

        Raises:
            ApiUnavailableError: It is neither after ten minutes; names the pods and nodes that hold it.
        """

        async def look() -> str | None:
            return await self._still_there(ref)

        if await self._until_gone(f"Job {ref}", look):
            await self._give_up(f"Job {ref}", ref.namespace, f"{CONTROLLER_UID}={ref.uid}", _MEND_NODE)

    async def wait_for_pods(self, namespace: str, identity: str, ended: Iterable[Job]) -> bool:
        """Return when no pod of this identity can run any more; whether that took any waiting.

        A Job that is deleted in the background is gone before its pods are, one that is deleted without
        them leaves them running, and a pod on a node that does not answer stays until that node is back or
        deleted.

        Args:
            namespace: Of the Jobs.
            identity: Digest of the identity.
            ended: Jobs whose pods need not be looked at: they are over, and may be many.

        Raises:
            ApiUnavailableError: Some are left after ten minutes; names them and their nodes.
        """
        over = [f"{CONTROLLER_UID}!={job.metadata.uid}" for job in ended if read_status(job).phase.is_final]
        selector, waited = ",".join([identity_selector(identity), *over]), False

        async def look() -> str | None:
            nonlocal waited
            words = await self._pods_still_there(namespace, selector)
            waited = waited or words is not None
            return words

        what = f"the pods of a Job of {identity} that is gone"
        if await self._until_gone(what, look):
            await self._give_up(what, namespace, selector, f"{_MEND_ORPHANS} {_MEND_NODE}")
        return waited

    async def _until_gone(self, what: str, look: Callable[[], Awaitable[str | None]]) -> bool:
        """Wait until `look` says None; True: it never did."""
        began, pause, said_at = self._clock(), _FIRST_PAUSE_SECONDS, float("-inf")
        while (words := await look()) is not None:
            now = self._clock()
            if now - began >= LONGEST_SECONDS:
                return True
            if now - said_at >= _SAY_EVERY_SECONDS:
                self._log.info("Waiting for %s to be gone: %s", what, words)
                said_at = now
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)
        return False

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

    async def _pods_still_there(self, namespace: str, selector: str) -> str | None:
        try:
            page = await self._client.list_pods(namespace, selector)
        except ApiUnavailableError as error:
            return str(error)
        except ApiRefusedError as error:
            self._log.warning("Whether pods of an earlier Job still run can't be seen, going on: %s", error)
            return None
        left = [pod for pod in page.items if not pod.is_over]
        return _named(left) if left else None

    async def _give_up(self, what: str, namespace: str, selector: str, mend: str) -> None:
        held = "its pods can't be listed"
        try:
            page = await self._client.list_pods(namespace, selector)
        except ApiError as error:
            held = f"{held}: {error}"
        else:
            pods = [pod for pod in page.items if not pod.is_over]
            held = f"held by {_named(pods)}" if pods else "none of its pods is left"
        raise ApiUnavailableError(
            f"wait for {what} to be gone",
            message=f"still there after {LONGEST_SECONDS / 60:.0f} min, {held}. {mend}",
        )


def _named(pods: list[Pod]) -> str:
    names = [f"{pod.name} on node {pod.spec.node_name or '(none)'}" for pod in pods]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
