"""How a try leaves its Job where the task ends and the Job has not: it goes on, or it is stopped.

It goes on where somebody will come back for it: a next try, or the triggerer. In all other ways out of
`execute` and `resume_execution` it is stopped, wherever the process just was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_batchjob.client.config import connect
from airflow_batchjob.compat import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
    incarnation,
)
from airflow_batchjob.core.errors import DeadlineError, JobFailedError, SpecError, TaskCutError
from airflow_batchjob.core.event import Cause
from airflow_batchjob.core.identity.marks import identity_selector, read_marks
from airflow_batchjob.core.identity.runs import is_of_another_run
from airflow_batchjob.core.reading.status import phase_of
from airflow_batchjob.hooks.batchjob import BatchJobHook
from airflow_batchjob.operators.rendering import namespace_in
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

    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.core.reading.job import Job
    from airflow_batchjob.operators.attempt import Attempt
    from airflow_batchjob.operators.batchjob import BatchJobOperator

_UNHURRIED_SECONDS = 30.0
"""For stopping where nobody kills this process meanwhile."""

_TIMED_OUT = "Airflow's execution_timeout has passed"


@contextmanager
def nothing_left_of_earlier_tries(given: BatchJobOperator, context: Context) -> Iterator[None]:
    """Where a try ends for good before it has asked the cluster: stop what an earlier one left.

    The first try has none, so it asks nobody.
    """
    try:
        yield
    except (Exception, AirflowTaskTimeout) as error:
        ti = context["ti"]
        is_the_end = isinstance(error, SpecError | AirflowSkipException) or _is_last(error, ti)
        if is_the_end and ti.try_number > 1:
            leaving = _Leaving(given, context, None, incarnation(context) or "")
            leaving.stop(_ended(error), Cause.STOPPED, limit_seconds=_UNHURRIED_SECONDS)
        raise


@contextmanager
def nothing_left_behind(
    given: BatchJobOperator, context: Context, attempt: Attempt | None = None
) -> Iterator[None]:
    """Where a try ends without its Job having ended, and nobody will come back for it: stop it.

    As long as a try is left, the Job goes on: that try attaches to it.
    """
    known = attempt.request.incarnation if attempt else None
    leaving = _Leaving(given, context, attempt.settings if attempt else None, known)
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
        if _is_last(error, context["ti"]):
            leaving.stop(_ended(error), Cause.STOPPED, limit_seconds=_UNHURRIED_SECONDS)
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


def _is_last(error: BaseException, ti: Any) -> bool:
    is_final = isinstance(error, AirflowFailException) or not getattr(error, "retryable", True)
    return is_final or bool(ti.try_number > ti.max_tries)


def _ended(error: BaseException) -> str:
    how = "was skipped" if isinstance(error, AirflowSkipException) else "failed"
    return f"the task {how}: {error}"[:300]


class _Leaving(NamedTuple):
    given: BatchJobOperator
    context: Context
    settings: ClusterSettings | None = None  # None: of the operator's connection
    incarnation: str | None = None  # None where Airflow resumes a task: only what it holds is its own

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
        settings = self.settings or await BatchJobHook(self.given.kubernetes_conn_id).asettings()
        async with await connect(settings) as client:
            page = await client.list_jobs(self._namespace() or client.namespace, selector)
            for job in page.items:
                if self._is_ours(job) and not phase_of(job).is_final:
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
        marks, holder = read_marks(job), holder_of(self.context["ti"])
        if self.incarnation is None:
            return marks.holder == holder
        return not is_of_another_run(marks, incarnation=self.incarnation, holder=holder)

    def _namespace(self) -> str | None:
        given = self.given
        variables = given.variables if isinstance(given.variables, Mapping) else {}
        return given.namespace or namespace_in(given.manifest, variables)
