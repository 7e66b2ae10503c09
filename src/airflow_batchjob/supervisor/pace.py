"""How often a supervisor looks, and how long it waits out an outage. All in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ApiUnavailableError

_REFUSALS = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times between looks.

    Attributes:
        full_read_seconds: A list in spite of the watch, for what a watch may have missed.
        list_seconds: Between shared lists where watching is forbidden.
        after_end_seconds: After a watch that the server ended.
        joining_seconds: Supervisors that come within this time share their first read.
        between_looks_seconds: At least, between two looks at one Job.
        pods_seconds: At least, between two lists of one Job's pods.
        most_pods_seconds: For the largest Jobs.
        events_seconds: Without any pod, before the Job's events are asked for; then twice as long each time.
        most_events_seconds: The longest time between two askings.
        progress_seconds: Between progress lines.
        refusal_seconds: So long must a refusal last that comes after the API has let us in.
        refused_again_seconds: After a refusal that lasts, before what was forbidden is tried again.
        longest_outage_seconds: The longest pause between attempts while the API does not answer.
    """

    full_read_seconds: float = 300.0
    list_seconds: float = 15.0
    after_end_seconds: float = 1.0
    joining_seconds: float = 0.2
    between_looks_seconds: float = 1.0
    pods_seconds: float = 5.0
    most_pods_seconds: float = 60.0
    events_seconds: float = 30.0
    most_events_seconds: float = 600.0
    progress_seconds: float = 30.0
    refusal_seconds: float = 120.0
    refused_again_seconds: float = 600.0
    longest_outage_seconds: float = 30.0

    @property
    def patience_seconds(self) -> float:
        """For how long after it has let us in a refusal may still be one that passes."""
        return self.full_read_seconds + self.refusal_seconds

    def outage_delay_seconds(self, failures: int, error: ApiError) -> float:
        """Return the pause after so many failures in a row: doubling, never sooner than was asked."""
        asked = error.retry_after_seconds if isinstance(error, ApiUnavailableError) else None
        return max(asked or 0.0, min(self.longest_outage_seconds, 2.0 ** min(failures - 1, 10)))

    def pods_delay_seconds(self, active: int) -> float:
        """Return the pause between two lists of the pods of a Job with so many active."""
        return min(self.most_pods_seconds, self.pods_seconds + active / 100)


DEFAULT_PACE = Pace()


def is_refusal(error: ApiError) -> bool:
    """Tell whether the API did not let us: credentials are renewed and rights given while we run."""
    return isinstance(error, ApiRefusedError) and error.code in _REFUSALS
