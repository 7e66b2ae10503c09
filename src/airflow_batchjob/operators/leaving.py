"""How a try leaves its Job where the task ends and the Job has not: it goes on, or it is stopped.

It goes on where somebody will come back for it: a next try, or the triggerer. In all other ways out of
`execute` and `resume_execution` it is stopped, wherever the process just was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_batchjob.client.config import connect
from airflow_batchjob.compat import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
)
from airflow_batchjob.core.errors import DeadlineError, JobFailedError, SpecError, TaskCutError
from airflow_batchjob.core.event import Cause
from airflow_batchjob.core.identity.marks import identity_selector, read_marks
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.operators.requesting import holder_of, identity_of
from airflow_batchjob.operators.running import Runner
from airflow_batchjob.tasks import ENDED_STATES, TaskKey, logger_of, task_state
from airflow_batchjob.triggers.killing import (
    ASK_SECONDS,
    WORKER_SECONDS,
    reason_to_stop,
    stop_in_time,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_batchjob.core.reading.job import Job
    from airflow_batchjob.operators.attempt import Attempt
    from airflow_batchjob.operators.batchjob import BatchJobOperator

_UNHURRIED_SECONDS = 30.0
"""For stopping where nobody kills this process meanwhile."""

_TIMED_OUT = "Airflow's execution_timeout has passed"


@contextmanager
def nothing_left_behind(
    given: BatchJobOperator, context: Context, attempt: Attempt | None = None
) -> Iterator[None]:
    """Where a try ends without its Job having ended, and nobody will come back for it: stop it.

    As long as a try is left, the Job goes on: that try attaches to it.
    """
    leaving = _Leaving(given, context, attempt)
    try:
        yield
    except TaskDeferralTimeout as error:
        leaving.stop(_TIMED_OUT, Cause.EXECUTION_TIMEOUT)
        raise DeadlineError(f"{_TIMED_OUT}, and no triggerer saw to it") from error
    except AirflowTaskTimeout:
        leaving.stop(_TIMED_OUT, Cause.EXECUTION_TIMEOUT)
        raise
    except TaskCutError:
        leaving.stop_unless_somebody_comes_back()
        raise
    except (SpecError, JobFailedError, AirflowSkipException):
        raise  # nothing runs
    except Exception as error:
        is_last = isinstance(error, AirflowFailException) or not getattr(error, "retryable", True)
        if is_last or context["ti"].try_number > context["ti"].max_tries:
            words = f"the task failed: {error}"[:300]
            leaving.stop(words, Cause.STOPPED, limit_seconds=_UNHURRIED_SECONDS)
        raise


def leave_if_ended(attempt: Attempt) -> None:
    """Where somebody has ended the task while it submitted, end here.

    Airflow would refuse to defer it, after this process has ended: nobody would be told.

    Raises:
        TaskCutError: The task has ended.
    """
    state = attempt.runner.run(task_state(attempt.task, timeout_seconds=ASK_SECONDS))
    if state in ENDED_STATES:
        raise TaskCutError(f"The task was {state} before it could be deferred")


class _Leaving(NamedTuple):
    given: BatchJobOperator
    context: Context
    attempt: Attempt | None  # None where Airflow resumes a task

    def stop(self, reason: str, cause: Cause, *, limit_seconds: float = WORKER_SECONDS) -> None:
        """Stop what still runs of this try; never raises."""

        async def stop() -> None:
            await self._stop_found(reason, cause, limit_seconds)

        self._run(stop())

    def stop_unless_somebody_comes_back(self) -> None:
        """Ask Airflow, then stop or let it go on; never raises."""
        ti = self.context["ti"]

        async def stop() -> None:
            due = time.monotonic() + WORKER_SECONDS
            is_last = ti.try_number > ti.max_tries
            reason = await reason_to_stop(TaskKey.of(ti), logger_of(self.given), is_last_try=is_last)
            if reason:
                await self._stop_found(reason, Cause.STOPPED, due - time.monotonic())

        self._run(stop())

    def _run(self, work: Any) -> None:
        try:
            Runner().run(work)  # another than the one that was cut
        except Exception as error:  # noqa: BLE001  # the task fails of something else, which must be told
            self.given.log.warning("A Job of this try may still run, it could not be stopped: %s", error)

    async def _stop_found(self, reason: str, cause: Cause, limit_seconds: float) -> None:
        """Stop the Jobs of this try, as the cluster knows them: a task resumed merely to fail knows none."""
        ti, log = self.context["ti"], logger_of(self.given)
        selector = identity_selector(identity_of(TaskKey.of(ti)).digest)
        settings = self.attempt.settings if self.attempt else None
        settings = settings or await BatchJobHook(self.given.kubernetes_conn_id).asettings()
        async with await connect(settings) as client:
            page = await client.list_jobs(self._namespace() or client.namespace, selector)
            for job in page.items:
                if self._is_ours(job) and not read_status(job).phase.is_final:
                    await stop_in_time(
                        client,
                        job.ref,
                        holder=read_marks(job).holder,
                        new_holder=holder_of(ti),
                        reason=reason,
                        cause=cause,
                        log=log,
                        limit_seconds=limit_seconds,
                    )

    def _is_ours(self, job: Job) -> bool:
        """Tell whether this try sees to `job`, or would have, had it come to attach to it."""
        marks = read_marks(job)
        if self.attempt is not None and marks.incarnation == self.attempt.request.incarnation:
            return True
        return marks.holder == holder_of(self.context["ti"])

    def _namespace(self) -> str | None:
        from airflow_batchjob.operators.attempt import built

        try:
            return built(self.given).namespace
        except SpecError:  # templates may render otherwise now
            return self.given.namespace
