"""Every error this package raises, and whether trying again can help.

::

    BatchJobError
    ├── SpecError                  the request is wrong                    no
    ├── ApiError                   the Job API could not be asked
    │   ├── ApiRefusedError        401, 403, 404 namespace, 422, 400       no
    │   ├── ApiConflictError       409: see `reason`                       the caller knows
    │   ├── NotFoundError          the object is not there                 the caller knows
    │   ├── ExpiredError           410: list again                         the caller lists again
    │   └── ApiUnavailableError    429, 5xx, no answer                     yes
    ├── ForeignJobError            the name or identity is someone else's  no
    ├── OtherClusterError          worker and triggerer see two clusters   no
    ├── TaskCutError               the task's process was told to end      yes
    └── JobFailedError             the Job ended, not met
        ├── ThresholdNotMetError   too few indexes succeeded               yes
        ├── StockOutError          no capacity came                        yes
        ├── DeadlineError          out of time                             yes
        ├── OutcomeUnknownError    the Job vanished before it was read     yes
        ├── FailJobRuleError       a FailJob rule matched                  no
        └── StoppedError           a person stopped it                     no
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_batchjob.core.wording import hidden


class BatchJobError(Exception):
    """Base of all errors raised by airflow_batchjob."""

    retryable: ClassVar[bool] = False


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a request: where, what was given, why, and the mend."""

    field: str  # as the author wrote it, e.g. "retries_per_index" or "spec.template.spec.containers[0].image"
    value: object
    why: str
    mend: str
    hide: bool = False  # the value, which may hold a secret

    def __str__(self) -> str:
        shown = hidden(self.value) if self.hide else repr(self.value)
        return f"{self.field}={shown}: {self.why}. {self.mend}."


class SpecError(BatchJobError):
    """The request can't be sent; lists every problem, not the first alone."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class ApiError(BatchJobError):
    """The Job API could not be asked, or would not answer.

    `code` is the HTTP status (0: no answer came), `reason` Kubernetes' own word for it, e.g.
    "AlreadyExists"; `message` is the server's text.
    """

    def __init__(self, what: str, *, code: int = 0, reason: str = "", message: str = "") -> None:
        self.what, self.code, self.reason, self.message = what, code, reason, message
        answer = f"{code} {reason}: {message}" if code else message
        super().__init__(f"{what}: {answer}")


class ApiRefusedError(ApiError):
    """The API understood and said no: credentials, permissions or an invalid object."""


class ApiConflictError(ApiError):
    """409: `reason` tells "AlreadyExists" from "Conflict" (a quota, a stale version or uid)."""


class NotFoundError(ApiError):
    """There is no such object (any more)."""


class ExpiredError(ApiError):
    """410: the resource version or page token is too old; list again."""


class ApiUnavailableError(ApiError):
    """No answer, or one that says to come back later, after `retry_after_seconds` if given."""

    retryable = True

    def __init__(self, what: str, *, retry_after_seconds: float | None = None, **answer: Any) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(what, **answer)


class ForeignJobError(BatchJobError):
    """A Job stands where ours should, and it is not ours."""


class OtherClusterError(BatchJobError):
    """Worker and triggerer look at different clusters: where one sees the Job, the other does not."""


class TaskCutError(BatchJobError):
    """The process that saw to the Job was told to end before the Job had ended."""

    retryable = True


class JobFailedError(BatchJobError):
    """The Job has ended, and what was asked of it was not met."""

    retryable = True


class ThresholdNotMetError(JobFailedError):
    """Fewer indexes succeeded than were needed."""


class StockOutError(JobFailedError):
    """Pods could not be scheduled for longer than `pending_seconds`."""


class DeadlineError(JobFailedError):
    """`deadline_seconds` or Airflow's `execution_timeout` has passed."""


class OutcomeUnknownError(JobFailedError):
    """The Job vanished, or was replaced by someone else's, before its end could be read."""


class FailJobRuleError(JobFailedError):
    """A podFailurePolicy rule with the action FailJob matched: trying again cannot help."""

    retryable = False


class StoppedError(JobFailedError):
    """A person stopped the Job."""

    retryable = False
