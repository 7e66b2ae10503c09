"""A server that answers as told, however badly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(body: Any = None, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; text is sent as it is."""

    async def give(_request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(text=body, status=status, headers=named)
        return web.json_response(body, status=status, headers=named)

    return give


def refusal(code: int, reason: str = "", message: str = "no", kind: str = "jobs", **headers: str) -> Answer:
    status = {
        "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": {"kind": kind},
    }  # fmt: skip
    return answer(status, code, **headers)


def reset() -> Answer:
    """Cut the connection without a word."""

    async def give(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return give


def pieces(*parts: bytes, cut: bool = False) -> Answer:
    """A stream in these pieces; `cut` ends it by closing the connection in the middle of a chunk."""

    async def give(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        if cut:
            assert request.transport is not None
            request.transport.close()
        return response

    return give


def job(name: str = "embed", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}"}, "status": status}


@dataclass
class Script:
    """Answers in order, the last one for ever, and the requests they were given to."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def says(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        give = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await give(request)


def kubeconfig(server: str, **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
            {"name": "elsewhere", "context": {"cluster": "c", "user": "u", "namespace": "web"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": "first"}}],
    }
