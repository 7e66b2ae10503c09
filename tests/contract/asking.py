"""Asking a Kubernetes API, whichever it is, and the objects that the contract's cases begin with."""

from __future__ import annotations

import base64
import json
import re
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

from tests.cluster.target import Target

Object = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    body: Any  # JSON, or text where it was none
    warnings: tuple[str, ...] = ()

    @property
    def causes(self) -> set[tuple[str, str]]:
        """Each refused field, with the reason's last word: ``("spec.completions", "Required")``."""
        causes = self.body["details"]["causes"]
        return {(one["field"], one["reason"].removeprefix("FieldValue")) for one in causes}


@dataclass(frozen=True, slots=True)
class Asker:
    """Sends requests to one API server, and knows the namespace of the test at hand."""

    server: str
    context: ssl.SSLContext
    headers: Mapping[str, str]
    is_local: bool
    namespace: str = "default"
    minor: int = 37
    """Of the Kubernetes that answers: 37 of 1.37."""
    made: list[str] = field(default_factory=list)

    @classmethod
    def by_kubeconfig(cls, path: Path, *, is_local: bool) -> Asker:
        """Read a kubeconfig with a token or a client certificate in it."""
        content = yaml.safe_load(path.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = _inline(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode())
        if certificate := _inline(user, "client-certificate"):
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(certificate + b"\n" + _inline(user, "client-key"))
                file.flush()
                context.load_cert_chain(file.name)
        headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        return cls(cluster["server"], context, headers, is_local)

    @classmethod
    def of(cls, cluster: Target) -> Asker:
        """Ask the cluster that the run is on; its version decides the few differences."""
        asker = cls.by_kubeconfig(cluster.kubeconfig, is_local=cluster.is_local)
        return replace(asker, minor=int(re.sub(r"\D", "", asker.ask("GET", "/version").body["minor"])))

    @contextmanager
    def in_a_new_namespace(self) -> Iterator[Asker]:
        """Work in a namespace that nobody else uses; it goes with all that is in it."""
        name = f"t-{secrets.token_hex(5)}"
        answer = self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.code == 201, answer.body
        its = replace(self, namespace=name)
        # A real cluster makes the account that pods run under a moment later, and refuses pods till then.
        account = its.core("serviceaccounts", "default")
        its.eventually(lambda: self.is_local or its.ask("GET", account).code == 200)
        try:
            yield its
        finally:
            self.ask("DELETE", f"/api/v1/namespaces/{name}")

    def connection(self, seconds: float = TIMEOUT_SECONDS) -> HTTPSConnection:
        """Return a connection; `seconds` is how long it waits for each piece of an answer."""
        address = urlsplit(self.server)
        assert address.hostname
        return HTTPSConnection(address.hostname, address.port, timeout=seconds, context=self.context)

    def ask(  # a test says what it sends
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        if query:
            path += "?" + urlencode(query, quote_via=quote)
        connection = self.connection()
        sent = {**self.headers, "Accept": "application/json", "Content-Type": content_type, **(headers or {})}
        content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        try:
            connection.request(method, path, body=content, headers=sent)
            answer = connection.getresponse()
            text = answer.read()
            warnings = tuple(answer.headers.get_all("Warning") or ())
            is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
        finally:
            connection.close()
        return Answer(answer.status, json.loads(text) if is_json and text else text.decode(), warnings)

    def jobs(self, name: str = "", sub: str = "") -> str:
        """Return the path of Jobs, of one, or of a part of it."""
        return _join(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", name, sub)

    def core(self, plural: str, name: str = "", sub: str = "") -> str:
        """Return the path of objects of v1, of one, or of a part of it."""
        return _join(f"/api/v1/namespaces/{self.namespace}/{plural}", name, sub)

    def create_job(self, job: Object, **query: Any) -> Answer:
        return self.ask("POST", self.jobs(), job, **query)

    def have_job(self, job: Object) -> Object:
        """Create a Job and return it as stored."""
        answer = self.create_job(job)
        assert answer.code == 201, answer.body
        created: Object = answer.body
        return created

    def have(self, plural: str, obj: Object) -> Object:
        answer = self.ask("POST", self.core(plural), obj)
        assert answer.code == 201, answer.body
        created: Object = answer.body
        return created

    def merge(self, path: str, patch: Object, **query: Any) -> Answer:
        return self.ask("PATCH", path, patch, content_type=MERGE_PATCH, **query)

    @contextmanager
    def watching(self, path: str, **query: Any) -> Iterator[Iterator[Object]]:
        """Open a watch; its events end with ``timeoutSeconds``."""
        query = {"watch": "true", "timeoutSeconds": 5, **query}
        connection = self.connection(TIMEOUT_SECONDS + query["timeoutSeconds"])
        text = urlencode(query, quote_via=quote)
        try:
            connection.request(
                "GET", f"{path}?{text}", headers={**self.headers, "Accept": "application/json"}
            )
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield (json.loads(line) for line in answer)
        finally:
            connection.close()

    def eventually(self, look: Callable[[], Any], *, seconds: float = 20) -> Any:
        """Return what `look` returns once that is true; a real controller takes its time."""
        end = time.monotonic() + seconds
        while not (seen := look()):
            assert time.monotonic() < end, f"not within {seconds} s"
            time.sleep(0.05)
        return seen


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _inline(content: Mapping[str, Any], name: str) -> bytes:
    if data := content.get(f"{name}-data"):
        return base64.b64decode(data)
    return Path(content[name]).read_bytes() if content.get(name) else b""


def job(name: str = "j", *, pod: Object | None = None, labels: Object | None = None, **spec: Any) -> Object:
    """Return a Job to create; `pod` are fields of its pod's spec, the rest of its own."""
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"]}
    template: Object = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    if labels:
        template["metadata"] = {"labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def indexed(name: str = "j", *, completions: int = 3, **spec: Any) -> Object:
    return job(name, completionMode="Indexed", completions=completions, **spec)


def container(**fields: Any) -> Object:
    return {"name": "main", "image": "busybox:1.36", "command": ["true"], **fields}


def waiting_pod(name: str = "p", **spec: Any) -> Object:
    """Return a pod that no scheduler takes, so that nobody but the test changes it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [container()], **spec},
    }
