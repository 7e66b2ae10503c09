"""Airflow's REST API, as far as a user's clicks are needed."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

ASK_SECONDS = 20.0


class RefusedError(RuntimeError):
    """Airflow said no; the message is its answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@dataclass
class Rest:
    """Speaks as an administrator: the simple auth manager hands a token to whoever asks, if told so."""

    url: str
    _token: str = field(default="", repr=False)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request to /api/v2; return the answer's JSON."""
        self._token = self._token or self._send("GET", "/auth/token")["access_token"]
        return self._send(method, f"/api/v2{path}", body)

    def is_up(self) -> bool:
        try:
            return self._send("GET", "/api/v2/monitor/health")["metadatabase"]["status"] == "healthy"
        except (OSError, RefusedError):
            return False

    def health(self, part: str) -> str | None:
        """Return what the API says of "scheduler", "triggerer" or "dag_processor"."""
        status: str | None = self._send("GET", "/api/v2/monitor/health")[part]["status"]
        return status

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self.ask("GET", "/dags?limit=100")["dags"]}

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        self.ask("POST", f"/dags/{dag_id}/dagRuns", body)

    def pause(self, dag_id: str, is_paused: bool) -> None:
        self.ask("PATCH", f"/dags/{dag_id}", {"is_paused": is_paused})

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:
                text = answer.read()
        except HTTPError as error:
            with error:
                raise RefusedError(error.code, error.read().decode(errors="replace")) from error
        return json.loads(text) if text else None


@dataclass(frozen=True)
class TaskOf:
    """A task of one run; one instance where it is mapped."""

    rest: Rest
    dag_id: str
    run_id: str
    task_id: str = "work"
    map_index: int = -1

    @property
    def run_path(self) -> str:
        return f"/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}"

    @property
    def path(self) -> str:
        part = f"/{self.map_index}" if self.map_index >= 0 else ""
        return f"{self.run_path}/taskInstances/{self.task_id}{part}"

    def read(self) -> dict[str, Any]:
        """Return the task instance as Airflow has it now."""
        found: dict[str, Any] = self.rest.ask("GET", self.path)
        return found

    @property
    def state(self) -> str:
        return str(self.read()["state"])

    def xcom(self, key: str) -> Any:
        return self.rest.ask("GET", f"{self.path}/xcomEntries/{key}?deserialize=true")["value"]

    def mark(self, state: str) -> None:
        self.rest.ask("PATCH", self.path, {"new_state": state})

    def clear(self) -> None:
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": self.run_id,
            "task_ids": [self.task_id],
        }
        self.rest.ask("POST", f"/dags/{self.dag_id}/clearTaskInstances", body)

    def mark_run(self, state: str) -> None:
        self.rest.ask("PATCH", self.run_path, {"state": state})

    def delete_run(self) -> None:
        self.rest.ask("DELETE", self.run_path)
