"""`batchjob run`: submit a Job and see it through here, as a task would.

Ctrl-C stops the Job and waits until it has ended; a later one leaves at once and says what is left.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import logging
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_batchjob.cli.cluster import cluster_options, settings_of
from airflow_batchjob.cli.request import default_name, request_options, spec_from
from airflow_batchjob.core.errors import ApiError

if TYPE_CHECKING:
    from airflow_batchjob.client.protocol import JobClient
    from airflow_batchjob.core.event import Order, Verdict
    from airflow_batchjob.core.request.manifest import Built
    from airflow_batchjob.supervisor.request import Request

EXIT_MET, EXIT_NOT_MET, EXIT_LEFT = 0, 1, 130
_SUBMIT_PATIENCE_SECONDS = 2.0
_ONE_INTERRUPT_SECONDS = 1.0
"""Signals that follow the first one so soon mean the same: `timeout` signals its child, then the group."""


def add_parser(subparsers: Any) -> None:
    """Add the command to those of `batchjob`."""
    parser = subparsers.add_parser(
        "run",
        help="submit a Job and wait for its end",
        description="Submit a Job, show how far it is, and wait for its end. Ctrl-C stops the Job; another "
        "one, a second later or more, leaves at once. The result is printed as JSON. Exit code 0: met, 1: "
        "not met, 2: what was asked for is wrong or refused, 3: the cluster can't be reached, 130: left "
        "before the end.",
    )
    request_options(parser)
    parser.add_argument(
        "--id",
        metavar="ID",
        help="run it under a name of your own: a second run attaches to the Job, or takes its result "
        "(default: a new one each time)",
    )
    cluster_options(parser)
    parser.add_argument(
        "--logs",
        default="auto",
        metavar="WHICH",
        help='whose logs to show: auto, all, failed, none or indexes, e.g. "0,17" (default: auto)',
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the Job; return the exit code."""
    from airflow_batchjob.core.request.manifest import build
    from airflow_batchjob.core.telling.log_choice import read_log_choice

    built = build(spec_from(args), default_name=default_name(args))
    read_log_choice(args.logs, built.thresholds.completions)  # a bad one is named before anything is sent
    for note in built.notes:
        print(f"# {note}", file=sys.stderr)
    if built.nothing_to_do:
        print("completions is 0: there is nothing to do", file=sys.stderr)
        return EXIT_MET
    return asyncio.run(_run(args, built))


async def _run(args: argparse.Namespace, built: Built) -> int:
    from airflow_batchjob.cli.showing import shown
    from airflow_batchjob.client.config import connect

    request = _request(args, built)
    async with await connect(settings_of(args)) as client:
        with shown(built.stem) as (log, show):
            running = _Running(client=client, request=request, log=log)
            running.listen()
            try:
                return await running.to_the_end(show)
            except asyncio.CancelledError:
                await running.leave()
                log.warning("%s", running.what_is_left)
                return EXIT_LEFT
            except ApiError:
                await running.leave()
                if running.order is not None:
                    log.warning("%s", running.what_is_left)
                raise


def _request(args: argparse.Namespace, built: Built) -> Request:
    from airflow_batchjob.core.identity.marks import COMMAND_LINE
    from airflow_batchjob.core.identity.names import TaskIdentity
    from airflow_batchjob.supervisor.request import Request

    identity = args.id or secrets.token_hex(8)
    return Request(
        manifest=built.manifest,
        thresholds=built.thresholds,
        identity=TaskIdentity(COMMAND_LINE, "", identity, built.stem),
        holder=f"{_user()}@{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}",
        namespace=built.namespace,
        ttl_seconds_after_finished=built.ttl_seconds_after_finished,
        ttl_left_out=built.ttl_left_out,
        logs=args.logs,
    )


@dataclass(kw_only=True)
class _Running:
    """One run, and when Ctrl-C was pressed first."""

    client: JobClient
    request: Request
    log: logging.Logger
    order: Order | None = None
    interrupted_at: float | None = None  # on the event loop's clock
    is_stopped: bool = False
    main: asyncio.Task[Any] | None = None
    stopping: asyncio.Task[None] | None = None

    @property
    def what_is_left(self) -> str:
        if self.order is None:
            return (
                "Left before the Job was submitted, or while it was: `kubectl get jobs` shows what is there"
            )
        job = self.order.job
        if self.is_stopped:
            return f"Left. Job {job} was told to stop; it may take a while until its pods have ended"
        return (
            f"Left. Job {job} may still run. Delete it with "
            f"`kubectl delete job {job.name} --namespace {job.namespace}`"
        )

    def listen(self) -> None:
        """Hand Ctrl-C and SIGTERM over to this run."""
        self.main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self.interrupt)

    def interrupt(self) -> None:
        """Stop the Job; when interrupted again, leave at once."""
        now = asyncio.get_running_loop().time()
        if self.interrupted_at is not None and now - self.interrupted_at < _ONE_INTERRUPT_SECONDS:
            return
        is_first = self.interrupted_at is None
        self.interrupted_at = now if self.interrupted_at is None else self.interrupted_at
        if not is_first or self.order is None:
            if self.main is not None:
                self.main.cancel()
            return
        self.log.warning("Stopping Job %s; press Ctrl-C again to leave at once", self.order.job)
        self.stopping = asyncio.ensure_future(self._stop(self.order))

    async def leave(self) -> None:
        """End what still goes on here, quietly: what is cut off from the cluster says nothing true of it."""
        if self.stopping is not None and not self.stopping.done():
            self.stopping.cancel()
            await asyncio.wait({self.stopping})

    async def to_the_end(self, show: Any) -> int:
        """Submit, supervise, conclude; return the exit code."""
        from airflow_batchjob.core.deciding.report import error_for, result_of
        from airflow_batchjob.core.event import Order, Outcome
        from airflow_batchjob.supervisor.conclude import conclude
        from airflow_batchjob.supervisor.supervise import supervise

        answer = await self._submit()
        if isinstance(answer, Order):
            self.order = order = answer
            verdict = await supervise(self.client, order, log=self.log, show=show)
            if self.stopping is not None:
                await self.stopping
        else:
            verdict = answer
            self.order = order = self.request.order(verdict.job, verdict.generation)
        verdict = await conclude(self.client, order, verdict, log=self.log)
        print(json.dumps(result_of(verdict)))
        error = error_for(verdict, order)
        if error is not None:
            self.log.error("%s", error)
            return EXIT_NOT_MET
        self.log.info("%s: %s of %s succeeded", verdict.job, verdict.succeeded, verdict.completions)
        return EXIT_MET if verdict.outcome is Outcome.MET else EXIT_NOT_MET

    async def _submit(self) -> Order | Verdict:
        """Submit; when interrupted meanwhile, stop what has come of it."""
        from airflow_batchjob.core.event import Order
        from airflow_batchjob.supervisor.submit import submit

        submitting = asyncio.ensure_future(submit(self.client, self.request, log=self.log))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait({submitting}, timeout=_SUBMIT_PATIENCE_SECONDS)
            submitting.cancel()
            if done and submitting.exception() is None and isinstance(answer := submitting.result(), Order):
                self.order = answer
                await self._stop(answer)
            raise

    async def _stop(self, order: Order) -> None:
        from airflow_batchjob.supervisor.stopping import stop

        try:
            await stop(self.client, order.job, holder=order.holder, reason="interrupted on the command line")
            self.is_stopped = True
        except ApiError as error:
            self.log.warning("Job %s could not be stopped: %s", order.job, error)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
