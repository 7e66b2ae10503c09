"""A Job that is said to be gone, looked at once more by whoever concludes.

The triggerer may see another cluster than the worker: another connection of the same name, another
kubeconfig. A Job's uid is its own in all the world, so it tells them apart without any right but to
read Jobs.
"""

from __future__ import annotations

import logging

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.deciding.verdict import judge
from airflow_batchjob.core.errors import NotFoundError, OtherClusterError
from airflow_batchjob.core.event import Cause, Order, Verdict
from airflow_batchjob.core.reading.status import read_status


async def second_look(client: JobClient, order: Order, verdict: Verdict, *, log: logging.Logger) -> Verdict:
    """Return `verdict`, or the true one of a Job that is there after all, and over.

    Raises:
        OtherClusterError: The Job is there and alive: who said that it is gone looked elsewhere.
        ApiError: The API could not be asked.
    """
    if verdict.cause is not Cause.VANISHED:
        return verdict
    ref = verdict.job
    try:
        job = await client.get_job(ref.namespace, ref.name)
    except NotFoundError:
        return verdict
    if job.metadata.uid != ref.uid or job.metadata.deletion_timestamp is not None:
        return verdict
    if read_status(job).phase.is_final:
        log.warning("Job %s was not seen by who watched it, and is here: %s", ref, verdict.message)
        return judge(job, order)
    elsewhere = verdict.message or "who watched it did not find it"
    raise OtherClusterError(
        f"Job {ref} (uid {ref.uid}) is alive here, at {client.server}, and {elsewhere}. So worker and "
        "triggerer look at different clusters. Give both the same connection and the same files"
    )
