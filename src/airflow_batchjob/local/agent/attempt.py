"""One start of one container: what to ask the launcher for, and what its end means."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_batchjob.local.agent.environment import Lookup, command_line, container_env
from airflow_batchjob.local.agent.refusals import DEFAULT_MESSAGE_PATH, uses_message_file
from airflow_batchjob.local.agent.states import KILLED_CODE, NEVER, START_ERROR_CODE, Terminated
from airflow_batchjob.local.agent.volumes import mounts_of
from airflow_batchjob.local.api.quantity import amount
from airflow_batchjob.local.launcher.protocol import Ended, Mount, Refused, Start
from airflow_batchjob.local.logs import LogStore

Object = dict[str, Any]

MESSAGE_BYTES = 4096  # Kubernetes' own limit


def base_environment() -> dict[str, str]:
    """Return what every command finds, whatever its pod says.

    The server's own environment stays out, but for what a command cannot do without. The folder of
    this Python comes first in PATH, so that ``python`` is one that has what the server has.
    """
    path = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG", "TZ") if name in os.environ}
    return {**kept, "PATH": os.pathsep.join(dict.fromkeys(path))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all containers of a pod share."""

    pod: Object
    folder: Path
    volumes: Mapping[str, Path]
    lookup: Lookup
    allocatable: Mapping[str, str]
    base_env: Mapping[str, str]
    logs: LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a container."""

    container: Object
    number: int
    around: Surroundings

    @property
    def id(self) -> str:
        return f"{self.around.pod['metadata']['uid']}/{self.container['name']}/{self.number}"

    @property
    def _message_file(self) -> Path:
        return self.around.folder / f"{self.container['name']}.{self.number}.message"

    def request(self) -> Start:
        """Return what to ask the launcher for.

        Raises:
            ConfigError: A config map, a secret or a key is missing.
        """
        container, around = self.container, self.around
        pod, uid = around.pod, around.pod["metadata"]["uid"]
        env = {
            **around.base_env,
            "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
            **container_env(container, pod, around.lookup, around.allocatable),
        }
        mounts = mounts_of(container, pod, dict(around.volumes))
        if mounts or uses_message_file(container):
            self._message_file.touch()
            target = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
            mounts.append(Mount(source=str(self._message_file), target=target))
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        return Start(
            id=self.id,
            argv=command_line(container, env),
            env=env,
            folder=container.get("workingDir") or str(around.folder),
            log=str(around.logs.path(uid, container["name"], self.number)),
            mounts=mounts,
            memory_bytes=int(amount(limit)) if limit is not None else None,
        )

    def refused(self, report: Refused, now: datetime) -> Terminated:
        """Return the end of an attempt that could not be started."""
        return Terminated(
            exit_code=START_ERROR_CODE,
            reason="StartError",
            message=report.message,
            started_at=NEVER,
            finished_at=now,
        )

    def ended(self, report: Ended, started_at: datetime, now: datetime) -> Terminated:
        """Return the end of an attempt that ran."""
        code = KILLED_CODE if report.out_of_memory else report.exit_code
        reason = "OOMKilled" if report.out_of_memory else "Error" if code else "Completed"
        return Terminated(
            exit_code=code,
            reason=reason,
            message=self._message(code),
            started_at=started_at,
            finished_at=now,
        )

    def _message(self, code: int) -> str:
        with contextlib.suppress(OSError):
            message = self._message_file.read_bytes()[:MESSAGE_BYTES].decode("utf-8", "replace")
            if message:
                return message
        if code and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            uid = self.around.pod["metadata"]["uid"]
            return self.around.logs.last_lines(uid, self.container["name"], self.number)
        return ""
