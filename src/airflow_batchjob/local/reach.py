"""A small client for a cluster of one's own: what command line and fixtures need, no more."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

TIMEOUT_SECONDS = 10.0


class RefusedError(RuntimeError):
    """The cluster said no; `status` is its Status object."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status = status
        super().__init__(str(status.get("message", status)))


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a cluster."""

    url: str
    token: str
    authority: str
    """In PEM."""

    @classmethod
    def by_kubeconfig(cls, path: Path) -> Reach:
        """Read a kubeconfig as this cluster writes it.

        Raises:
            OSError: The file cannot be read.
        """
        content = yaml.safe_load(path.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], user["token"], authority)

    def ask(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send one request and return the answer's JSON.

        Raises:
            RefusedError: The answer is an error.
            OSError: There was no answer.
        """
        context = ssl.create_default_context(cadata=self.authority)
        address = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=TIMEOUT_SECONDS, context=context
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            content: dict[str, Any] = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status >= 400:
            raise RefusedError(content)
        return content

    def lose_node(self, name: str) -> None:
        """Lose a machine, as in a power cut.

        Raises:
            RefusedError: There is none of that name, or it is lost already.
        """
        self.ask("DELETE", f"/api/v1/nodes/{name}")

    def bring_back_node(self, name: str) -> None:
        """Bring back a machine that was lost.

        Raises:
            RefusedError: It is there, or was never declared.
        """
        self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    def evict(self, namespace: str, pod: str) -> None:
        """Evict a pod.

        Raises:
            RefusedError: There is none of that name.
        """
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        self.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", eviction)
