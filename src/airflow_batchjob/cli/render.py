"""`batchjob render`: the manifest that would be sent, or every problem with it. Sends nothing."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from airflow_batchjob.cli.request import default_name, request_options, spec_from


def add_parser(subparsers: Any) -> None:
    """Add the command to those of `batchjob`."""
    parser = subparsers.add_parser(
        "render",
        help="print the manifest that would be sent, or every problem",
        description="Print the manifest that would be sent, as YAML, or every problem with it (exit code 2). "
        "What was decided without being asked for is said on standard error. The name becomes unique when "
        "the Job is sent.",
    )
    request_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the manifest on standard output, notes on standard error."""
    from airflow_batchjob.core.identity.names import READABLE_NOTE, readable
    from airflow_batchjob.core.request.early import is_templated
    from airflow_batchjob.core.request.manifest import build
    from airflow_batchjob.core.request.writing import write_yaml

    spec = spec_from(args)
    built = build(spec, default_name=default_name(args))
    if is_templated(spec.manifest):
        print("# Jinja is rendered by Airflow alone: here it stands as it is written", file=sys.stderr)
    for note in (*built.notes, READABLE_NOTE):
        print(f"# {note}", file=sys.stderr)
    if built.nothing_to_do:
        print("# completions is 0: nothing would be submitted", file=sys.stderr)
    sys.stdout.write(write_yaml(readable(built.manifest)))
    return 0
