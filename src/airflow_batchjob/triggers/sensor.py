"""A sensor's wait in the triggerer: wiring alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_batchjob.compat import AirflowNotFoundException
from airflow_batchjob.core.deciding.report import for_event
from airflow_batchjob.core.errors import BatchJobError, JobFailedError
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.hooks.shared import shared_client
from airflow_batchjob.supervisor.looking import Sight, Target, looks
from airflow_batchjob.supervisor.observe import Aim, Observation, observe
from airflow_batchjob.tasks import TaskKey, logger_of
from airflow_batchjob.triggers.holding import Hold
from airflow_batchjob.triggers.owner import AirflowOwner
from airflow_batchjob.triggers.telling import told


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sensor waits for; survives JSON.

    Attributes:
        target: Which Jobs.
        until: As `Aim.until`.
        max_failed: As `Aim.max_failed`.
        instance: The name of this Airflow.
        owner: The owning task where it is known.
    """

    target: Target
    until: int | str
    max_failed: int | str | None = None
    instance: str
    owner: TaskKey | None = None

    @property
    def aim(self) -> Aim:
        return Aim(until=self.until, max_failed=self.max_failed)

    @property
    def whose(self) -> str:
        return str(self.target if self.owner is None else self.owner)

    def to_json_types(self) -> dict[str, Any]:
        """Return plain dicts, strings and numbers."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Sighting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sensor trigger's event: the end of the wait, or why there is none."""

    seen: Observation | None = None
    error: str = ""
    is_about_job: bool = False  # soft_fail is for those
    may_retry: bool = True

    def to_payload(self) -> dict[str, Any]:
        """Return plain JSON types."""
        payload: dict[str, Any] = msgspec.to_builtins(self)
        return payload


class BatchJobSensorTrigger(BaseTrigger):
    """Watch Jobs that someone else runs, and fire once.

    Args:
        kubernetes_conn_id: The Airflow connection that names the cluster.
        wait: A `Wait` as plain JSON types.
    """

    def __init__(self, *, kubernetes_conn_id: str, wait: dict[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own isn't annotated
        self.kubernetes_conn_id = kubernetes_conn_id
        self.wait = wait

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what rebuilds this trigger elsewhere."""
        arguments = {"kubernetes_conn_id": self.kubernetes_conn_id, "wait": self.wait}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch; fire with a `Sighting`."""
        hold = Hold()
        sighting = await self._sighting()
        if self.task_instance is not None:  # else no scheduler is about
            await hold.over()
        yield TriggerEvent(sighting.to_payload())  # type: ignore[no-untyped-call]  # Airflow's own isn't annotated

    async def _sighting(self) -> Sighting:
        wait = msgspec.convert(self.wait, Wait)
        try:
            settings = await BatchJobHook(self.kubernetes_conn_id).asettings()
            async with shared_client(settings) as client:
                sight = Sight(client, wait.target)
                log = logger_of(self)
                async with (
                    aclosing(looks(sight, log=log)) as views,
                    aclosing(told(views, wait.whose, log)) as heard,
                ):
                    seen = await observe(heard, sight.read, wait.aim, AirflowOwner(wait.instance, wait.owner))
        except BatchJobError as error:
            return Sighting(
                error=f"{type(error).__name__}: {error}",
                is_about_job=isinstance(error, JobFailedError),
                may_retry=error.retryable,
            )
        except AirflowNotFoundException as error:
            return Sighting(error=f"{type(error).__name__}: {error}", may_retry=False)
        cut = None if seen.verdict is None else for_event(seen.verdict)
        return Sighting(
            seen=msgspec.structs.replace(seen, verdict=cut, told=None)
        )  # the worker reads that itself
