"""From an Airflow connection to a client: one way for worker and triggerer.

Opens nothing until asked, and imports no client before: a DAG file that names an operator must not
pay for an HTTP library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_batchjob.compat import AirflowNotFoundException
from airflow_batchjob.hooks.connection import capacity_profiles, cluster_settings, named_machine, read_extra

if TYPE_CHECKING:
    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.client.kubernetes import KubernetesClient
    from airflow_batchjob.core.capacity.capacity import Profiles
    from airflow_batchjob.core.sharing.machine import Machine
    from airflow_batchjob.supervisor.rerun import RerunRequest

DEFAULT_CONNECTION = "kubernetes_default"


class BatchJobHook(BaseHook):
    """The cluster that a `kubernetes` connection names.

    The worker reads the connection with `settings()` before it starts an event loop, the triggerer
    with `await asettings()` inside one. `connect` of `airflow_batchjob.client.config` makes a client
    of either.

    Args:
        kubernetes_conn_id: The connection. "kubernetes_default", where it does not exist, means
            in-cluster or kubeconfig; any other missing connection is an error.
    """

    conn_name_attr = "kubernetes_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "kubernetes"
    hook_name = "Kubernetes Cluster Connection"

    def __init__(self, kubernetes_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id

    def settings(self) -> ClusterSettings:
        """Return which cluster it is; for code outside an event loop.

        Raises:
            SpecError: The connection makes no sense.
            AirflowNotFoundException: There is no such connection.
        """
        return cluster_settings(self.kubernetes_conn_id, self._extra())

    async def asettings(self) -> ClusterSettings:
        """Return which cluster it is; for code inside an event loop. Raises as `settings` does."""
        return cluster_settings(self.kubernetes_conn_id, await self._aextra())

    def machine(self, name: str) -> Machine:
        """Return a machine by the name it has in the connection's extra, or in `[batchjob] defaults`.

        Raises:
            SpecError: There is none of that name; the message lists all known ones.
        """
        return named_machine(name, self._extra(), _defaults())

    def profiles(self) -> Profiles:
        """Return what the cluster calls its spot and on-demand machines; from the same places as `machine`.

        Raises:
            SpecError: What stands there makes no sense, or names an unknown preset.
        """
        return capacity_profiles(self._extra(), _defaults())

    def request_rerun(
        self, job_name: str, indexes: str, *, namespace: str | None = None, by: str = ""
    ) -> RerunRequest:
        """Ask for indexes of a Job that is over; they run when its task is cleared. Outside an event loop.

        Args:
            job_name: Of the Job, of any generation.
            indexes: "failed", "rest" (all that is not done), "all", or numbers and ranges such as "3,7-9".
            namespace: Of the Job; None: the connection's.
            by: Who asks, for the log.

        Returns:
            What will run, and how to clear the task.

        Raises:
            SpecError: There is no such Job, it is not over, or it has no such indexes.
            ApiError: The API could not be asked, or refused.
        """
        import asyncio

        return asyncio.run(self.arequest_rerun(job_name, indexes, namespace=namespace, by=by))

    async def arequest_rerun(
        self, job_name: str, indexes: str, *, namespace: str | None = None, by: str = ""
    ) -> RerunRequest:
        """Do as `request_rerun` does, inside an event loop."""
        from airflow_batchjob.supervisor.rerun import request_rerun

        async with await self.aget_conn() as client:
            return await request_rerun(client, job_name, indexes, namespace=namespace, by=by)

    def get_conn(self) -> ClusterSettings:
        """Return `settings()`: a client belongs to an event loop, so none is made here."""
        return self.settings()

    async def aget_conn(self) -> KubernetesClient:
        """Return a client for the running event loop; close it there, best with `async with`."""
        from airflow_batchjob.client.config import connect

        return await connect(await self.asettings())

    def _extra(self) -> dict[str, Any]:
        try:
            found = self.get_connection(self.kubernetes_conn_id)
        except AirflowNotFoundException:
            return self._extra_of_none()
        return read_extra(self.kubernetes_conn_id, found.extra)

    async def _aextra(self) -> dict[str, Any]:
        try:
            found = await self.aget_connection(self.kubernetes_conn_id)
        except AirflowNotFoundException:
            return self._extra_of_none()
        return read_extra(self.kubernetes_conn_id, found.extra)

    def _extra_of_none(self) -> dict[str, Any]:
        if self.kubernetes_conn_id == DEFAULT_CONNECTION:
            return {}
        raise AirflowNotFoundException(
            f"kubernetes_conn_id={self.kubernetes_conn_id!r}: there is no such connection. Create it with "
            f"the type `kubernetes`, or leave the parameter out to use the cluster or kubeconfig at hand."
        )


def _defaults() -> str:
    from airflow.configuration import conf

    return str(conf.get("batchjob", "defaults", fallback="") or "")
