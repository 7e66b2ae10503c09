"""How long to wait before asking again: exponential, jittered, and never sooner than the server says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often passing trouble is met with another attempt, and how far apart they are.

    The defaults wait up to about half a minute in all. A longer outage is the caller's to wait out:
    it knows whether anything is lost by waiting.
    """

    attempts: int = 8
    first_seconds: float = 0.2  # short: who was told to end has 4 seconds for all it does
    longest_seconds: float = 15.0

    def delay_seconds(self, attempt: int, retry_after_seconds: float | None, chance: float) -> float:
        """Return the pause after attempt number `attempt` (from 1).

        Args:
            attempt: How many attempts have been made.
            retry_after_seconds: What the server asked for; waited for in full.
            chance: A random number from 0 to 1, so that many clients do not come back at once.
        """
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** (attempt - 1))
        jittered = longest * (0.5 + chance / 2)
        return jittered if retry_after_seconds is None else retry_after_seconds + jittered / 2
