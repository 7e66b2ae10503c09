"""A supervisor in the triggerer: wiring alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_batchjob.compat import AirflowFailException, AirflowNotFoundException, triggers_are_told_of_kills
from airflow_batchjob.core.deciding.report import for_event
from airflow_batchjob.core.errors import ApiUnavailableError, BatchJobError
from airflow_batchjob.core.event import Cause, Order, Verdict
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.hooks.shared import shared_client
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.tasks import TaskKey, logger_of
from airflow_batchjob.triggers.asking import ask_early
from airflow_batchjob.triggers.holding import Hold
from airflow_batchjob.triggers.killing import (
    TRIGGER_ASK_SECONDS,
    TRIGGER_STOP_SECONDS,
    reason_to_stop,
    stop_in_time,
)


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trigger's event: what was ordered, and how it ended or why nobody can tell.

    Attributes:
        order: The trigger's own.
        verdict: How the Job ended.
        error: What kept the supervisor from seeing that.
        may_retry: Whether trying again can help against the error.
    """

    order: Order
    verdict: Verdict | None = None
    error: str = ""
    may_retry: bool = True

    def to_payload(self) -> dict[str, Any]:
        """Return plain JSON types."""
        payload: dict[str, Any] = msgspec.to_builtins(self)
        return payload

    def as_error(self) -> Exception:
        """Return what to raise where there is no verdict."""
        if self.may_retry:
            return ApiUnavailableError("see the Job through in the triggerer", message=self.error)
        return AirflowFailException(f"The triggerer could not see the Job through: {self.error}")

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Report:
        """Read what `to_payload` wrote."""
        return msgspec.convert(payload, cls)


class BatchJobTrigger(BaseTrigger):
    """See a Job through to its end, and fire once.

    Args:
        kubernetes_conn_id: The Airflow connection that names the cluster.
        order: An `Order` as plain JSON types.
    """

    def __init__(self, *, kubernetes_conn_id: str, order: dict[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own isn't annotated
        self.kubernetes_conn_id = kubernetes_conn_id
        self.order = order
        self._has_seen_end = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what rebuilds this trigger elsewhere."""
        arguments = {"kubernetes_conn_id": self.kubernetes_conn_id, "order": self.order}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Supervise; fire with a `Report`."""
        hold = Hold()
        if self.task_instance is not None:
            ask_early(TaskKey.of(self.task_instance))
        report = await self._report()
        self._has_seen_end = report.verdict is not None
        if self.task_instance is not None:  # else no scheduler is about
            await hold.over()
        yield TriggerEvent(report.to_payload())  # type: ignore[no-untyped-call]  # Airflow's own isn't annotated

    async def on_kill(self) -> None:
        """Stop the Job if the task has ended: Airflow calls this for mere moves, too."""
        await self._stop_if_ended()

    async def cleanup(self) -> None:
        """Below Airflow 3.3, where triggers have no `on_kill`, do its work; else nothing."""
        if not triggers_are_told_of_kills() and not self._has_seen_end:
            await self._stop_if_ended()

    async def _report(self) -> Report:
        order = Order.from_json_types(self.order)
        try:
            settings = await BatchJobHook(self.kubernetes_conn_id).asettings()
            async with shared_client(settings) as client:
                verdict = await supervise(client, order, log=logger_of(self))
                if verdict.cause is Cause.VANISHED:
                    words = f"the triggerer did not find it at {client.server}"
                    verdict = msgspec.structs.replace(verdict, message=words)
        except BatchJobError as error:
            return Report(order=order, error=f"{type(error).__name__}: {error}", may_retry=error.retryable)
        except AirflowNotFoundException as error:
            return Report(order=order, error=f"{type(error).__name__}: {error}", may_retry=False)
        return Report(order=order, verdict=for_event(verdict))

    async def _stop_if_ended(self) -> None:
        order = Order.from_json_types(self.order)
        if self.task_instance is None:  # whose task can't be told
            return
        task, log = TaskKey.of(self.task_instance), logger_of(self)
        reason = await reason_to_stop(task, log, limit_seconds=TRIGGER_ASK_SECONDS)
        if not reason:
            return
        settings = await BatchJobHook(self.kubernetes_conn_id).asettings()
        async with shared_client(settings) as client:
            await stop_in_time(
                client,
                order.job,
                holder=order.holder,
                reason=reason,
                cause=Cause.STOPPED,
                log=log,
                limit_seconds=TRIGGER_STOP_SECONDS,
            )
