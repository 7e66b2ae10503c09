"""`batchjob rerun`: ask for indexes of a Job that is over, and say how to start its task."""

from __future__ import annotations

import argparse
import asyncio
import getpass
from typing import TYPE_CHECKING, Any

from airflow_batchjob.cli.cluster import cluster_options, settings_of
from airflow_batchjob.core.wording import counted

if TYPE_CHECKING:
    from airflow_batchjob.supervisor.rerun import RerunRequest

_MOST_BYTES_SHOWN = 200


def add_parser(subparsers: Any) -> None:
    """Add the command to those of `batchjob`."""
    parser = subparsers.add_parser(
        "rerun",
        help="ask for indexes of a Job that is over",
        description="Ask for indexes of a Job that is over. They run when its task is cleared, which is left "
        "to you: the command for that is printed. All other indexes stay as they are.",
    )
    parser.add_argument("name", metavar="NAME", help="of the Job, of any generation")
    parser.add_argument(
        "--indexes",
        required=True,
        metavar="WHICH",
        help='"failed", "rest" (all that is not done), "all", or numbers and ranges, e.g. "3,7-9"',
    )
    parser.add_argument("--namespace", metavar="NAME", help="of the Job (default: the context's)")
    cluster_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the request; return the exit code."""
    asked = asyncio.run(_ask(args))
    text, left_out = asked.indexes.cut(_MOST_BYTES_SHOWN)
    print(
        f"# Job {asked.job}: {asked.indexes.count:,} of {counted(asked.completions, 'index', 'indexes')} "
        f"will run: {text}{',…' if left_out else ''}; {asked.succeeded:,} have succeeded so far"
    )
    print("# They run once its task is cleared:")
    print(asked.then)
    return 0


async def _ask(args: argparse.Namespace) -> RerunRequest:
    from airflow_batchjob.client.config import connect
    from airflow_batchjob.supervisor.rerun import request_rerun

    async with await connect(settings_of(args)) as client:
        return await request_rerun(client, args.name, args.indexes, namespace=args.namespace, by=_user())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
