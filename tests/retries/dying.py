"""A client whose process dies: right after a request was answered, as SIGKILL may come at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiRefusedError


class DiedError(BaseException):
    """No more than this is left of the process."""


class Through:
    """Stands between the code and a client: remembers what is asked, and may die or be refused.

    Args:
        client: Does the work.
        dies_after: Method, and at its how many-th call.
        forbidden: Methods that the account has no right to.
    """

    def __init__(
        self, client: JobClient, *, dies_after: tuple[str, int] | None = None, forbidden: tuple[str, ...] = ()
    ) -> None:
        self._client, self._dies_after, self._forbidden = client, dies_after, forbidden
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return (
            self._watched(name, found)
            if name.split("_", maxsplit=1)[0] in {"list", "create", "get", "patch", "delete"}
            else found
        )

    def _watched(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(name)
            if name in self._forbidden:
                message = 'jobs.batch "work" is forbidden: User "airflow" cannot patch resource "jobs/status"'
                raise ApiRefusedError(name, code=403, reason="Forbidden", message=message)
            try:
                return await method(*args, **kwargs)
            finally:
                if self._dies_after == (name, self.asked.count(name)):
                    raise DiedError

        return call
