"""Times as kubectl writes them: 45s, 3m20s, 5h12m, 8d."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_batchjob.local.store import Object


def moment(text: str) -> datetime:
    """Read a time of an object."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def age(obj: Object, now: datetime) -> str:
    """Return how old an object is."""
    created = obj["metadata"].get("creationTimestamp")
    return human_duration(now - moment(created)) if created else "<unknown>"


def human_duration(span: timedelta) -> str:
    """Return a span with as many digits as tell something."""
    seconds = int(span.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
