"""A cluster behind `JobClient`: bytes in, bytes out, without client models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar

import aiohttp
from typing_extensions import Self

from airflow_batchjob.client import requests
from airflow_batchjob.client.decoding import ListOf, decode, decode_event
from airflow_batchjob.client.errors import error_for_exception
from airflow_batchjob.client.lines import LineSplitter
from airflow_batchjob.client.protocol import Page, WatchEvent
from airflow_batchjob.client.requests import Call
from airflow_batchjob.client.transport import Transport
from airflow_batchjob.core.errors import ApiConflictError, ExpiredError, NotFoundError
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.nodes import NodeObject
from airflow_batchjob.core.reading.pods import Pod

T = TypeVar("T", Job, Pod)

WATCH_SECONDS = (180, 240)  # the server ends a watch somewhere between, so that many do not end at once
LOG_IDLE_SECONDS = 300.0
LONGEST_LINE_BYTES = 1 << 20
MOST_FRESH_STARTS = 3  # of a list whose page token expired


class KubernetesClient:
    """Implements `JobClient` on a Kubernetes API, real or local.

    Reads and deletions, which may be repeated, creations, whose repetition shows as AlreadyExists,
    and patches, whose tests make a repetition harmless, meet passing trouble with further attempts.
    It belongs to the event loop it was made in: use it there and close it there, best with `async with`.
    """

    def __init__(self, transport: Transport, *, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return self._transport.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def answer(self, call: Call) -> dict[str, Any]:
        """Send a call of `client.requests` and return its JSON; for what is no business of a `JobClient`."""
        raw = await self._transport.send_patiently(call)
        found: dict[str, Any] = decode(call.what, raw, dict[str, Any])
        return found

    async def create_job(self, manifest: Mapping[str, Any]) -> Job:
        namespace = (manifest.get("metadata") or {}).get("namespace") or self._namespace
        call = requests.create_job(namespace, manifest)
        return _job(call, await self._transport.send_patiently(call, also_conflicts=True))

    async def get_job(self, namespace: str, name: str) -> Job:
        call = requests.get_job(namespace, name)
        return _job(call, await self._transport.send_patiently(call))

    async def list_jobs(self, namespace: str, label_selector: str) -> Page[Job]:
        return await self._list(namespace, "jobs", {"labelSelector": label_selector}, Job)

    def watch_jobs(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Job]]:
        call = requests.watch(namespace, "jobs", label_selector, resource_version, self._watch_seconds())
        return self._watch(call, Job)

    async def patch_job(self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]) -> Job:
        call = requests.patch_job(namespace, name, operations)
        return _job(call, await self._transport.send_patiently(call))

    async def patch_job_status(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Job:
        call = requests.patch_job(namespace, name, operations, subresource="status")
        return _job(call, await self._transport.send_patiently(call))

    async def delete_job(self, namespace: str, name: str, *, uid: str) -> None:
        call = requests.delete_job(namespace, name, uid)
        try:
            await self._transport.send_patiently(call)
        except NotFoundError:
            return
        except ApiConflictError as conflict:
            if conflict.reason != "Conflict":
                raise

    async def list_pods(self, namespace: str, label_selector: str) -> Page[Pod]:
        return await self._list(namespace, "pods", {"labelSelector": label_selector}, Pod)

    def watch_pods(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Pod]]:
        call = requests.watch(namespace, "pods", label_selector, resource_version, self._watch_seconds())
        return self._watch(call, Pod)

    async def get_node(self, name: str) -> NodeObject:
        call = requests.get_node(name)
        node: NodeObject = decode(call.what, await self._transport.send_patiently(call), NodeObject)
        return node

    async def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> bytes:
        call = requests.pod_log(namespace, pod, container, tail_lines=tail_lines, limit_bytes=limit_bytes)
        return await self._transport.send_patiently(call)

    async def follow_log(
        self, namespace: str, pod: str, *, container: str, since_time: str | None = None
    ) -> AsyncIterator[bytes]:
        call = requests.follow_log(
            namespace, pod, container, since_time=since_time, idle_seconds=LOG_IDLE_SECONDS
        )
        lines = LineSplitter(LONGEST_LINE_BYTES)
        async with aclosing(self._pieces(call)) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    yield line
        if rest := lines.rest():
            yield rest

    async def list_events(self, namespace: str, field_selector: str) -> list[dict[str, Any]]:
        page = await self._list(namespace, "events", {"fieldSelector": field_selector}, dict[str, Any])
        return list(page.items)

    async def _list(self, namespace: str, kind: str, selector: Mapping[str, str], of: Any) -> Page[Any]:
        starts = 0
        while True:
            starts += 1
            try:
                return await self._pages(namespace, kind, selector, of)
            except ExpiredError:
                if starts >= MOST_FRESH_STARTS:
                    raise

    async def _pages(self, namespace: str, kind: str, selector: Mapping[str, str], of: Any) -> Page[Any]:
        items: list[Any] = []
        token = ""
        while True:
            call = requests.list_page(namespace, kind, selector, token)
            page = decode(call.what, await self._transport.send_patiently(call), ListOf[of])
            items += page.items or ()
            token = page.metadata.next_page
            if not token:
                return Page(tuple(items), page.metadata.resource_version)

    async def _watch(self, call: Call, into: type[T]) -> AsyncGenerator[WatchEvent[T], None]:
        lines = LineSplitter()
        async with aclosing(self._pieces(call, silence_ends=True)) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    event = decode_event(call.what, line, into)
                    if event is not None:
                        yield event
        # What is left is half an event of a connection that was cut; the next watch brings it whole.

    async def _pieces(self, call: Call, *, silence_ends: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield a stream's pieces as they come. Opening it is tried again, what comes after is not."""
        stack, response = await self._transport.patiently(lambda: self._opened(call))
        async with stack:
            try:
                async for piece in response.content.iter_any():
                    yield piece
            except asyncio.TimeoutError as raised:
                if not silence_ends:
                    raise error_for_exception(call.what, self.server, raised) from None
            except (aiohttp.ClientError, OSError, RuntimeError) as raised:
                # A RuntimeError is aiohttp's word for a session that was closed while it was read.
                raise error_for_exception(call.what, self.server, raised) from None

    async def _opened(self, call: Call) -> tuple[AsyncExitStack, aiohttp.ClientResponse]:
        stack = AsyncExitStack()
        return stack, await stack.enter_async_context(self._transport.stream(call))

    def _watch_seconds(self) -> int:
        least, most = WATCH_SECONDS
        return least + int((most - least) * self._transport.waiting.chance())


def _job(call: Call, raw: bytes) -> Job:
    job: Job = decode(call.what, raw, Job)
    return job
