"""A Job asked for on the command line: the options that `render` and `run` share, as a `JobSpec`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from airflow_batchjob.core.capacity.capacity import Capacity, read_choice
from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.spec import JobSpec

STDIN = "-"
DEFAULTS = "AIRFLOW__BATCHJOB__DEFAULTS"
"""Environment variable of the setting `[batchjob] defaults`, which Airflow reads, too."""

# Option, metavar and help; the option's name is the parameter's.
_SIZES = {
    "completions": ("N", "how many indexes"),
    "parallelism": ("N", "how many pods at once"),
    "retries_per_index": ("N", "pods of one index that may fail and be replaced"),
    "backoff_limit": ("N", "pods of the whole Job that may fail"),
    "max_failed_indexes": ("N|P%", "end the Job as soon as more indexes have failed"),
    "min_succeeded": ("N|P%", "how many indexes must succeed (default: 100%%)"),
    "deadline_seconds": ("S", "longest active time"),
    "pending_seconds": ("S", "longest time without capacity"),
}
_WORK = {
    "image": ("IMAGE", "image of the container"),
    "container": ("NAME", "the container meant (default: the only one, else the first)"),
    "name": ("NAME", "stem of the Job's name"),
    "namespace": ("NAME", "where the Job goes"),
}


def request_options(parser: argparse.ArgumentParser) -> None:
    """Add the manifest and every option that decides what is asked of the Job."""
    parser.add_argument(
        "manifest", metavar="MANIFEST", help=f"a batch/v1 Job in YAML or JSON; {STDIN} reads standard input"
    )
    parser.add_argument(
        "--set",
        dest="variables",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="what ${NAME} in the manifest stands for; give it once for each",
    )
    parser.add_argument(
        "--machine",
        metavar="SIZE",
        help="what containers share, e.g. cpu=20,memory=101Gi,gpus=1 (also gpu_resource=…, guaranteed=true)",
    )
    parser.add_argument(
        "--capacity",
        metavar="KIND",
        help="on_demand or spot, with settings after it: spot,fallback=true,max_losses_per_index=3 "
        "(those of SpotPolicy) or on_demand,exclusive=true (those of OnDemand)",
    )
    parser.add_argument(
        "--defaults",
        metavar="JSON|FILE",
        help="what the cluster calls its machines, as in a connection's extra under batchjob "
        f"(default: ${DEFAULTS})",
    )
    for options in (_SIZES, _WORK):
        for name, (metavar, meaning) in options.items():
            parser.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=meaning)
    parser.add_argument(
        "--stop-when-succeeded",
        action="store_true",
        help="don't wait for the rest once --min-succeeded is met",
    )


def spec_from(args: argparse.Namespace) -> JobSpec:
    """Return what `args` ask for.

    Args:
        args: Of a parser with `request_options`.

    Raises:
        SpecError: The manifest can't be read, or an option has no NAME=VALUE.
    """
    problems = list(_option_problems(args))
    capacity = None
    manifest = ""
    try:
        manifest = _read(args.manifest)
    except SpecError as error:
        problems += error.problems
    try:
        capacity = _capacity(args)
    except SpecError as error:
        problems += error.problems
    if problems:
        raise SpecError(*problems)
    return JobSpec(
        manifest=manifest,
        # Text: where the whole value is used, its place decides what it is (`completions: ${N}`).
        variables=dict(pair.split("=", 1) for pair in args.variables),
        machine=args.machine,
        capacity=capacity,
        stop_when_succeeded=args.stop_when_succeeded,
        **{name: getattr(args, name) for options in (_SIZES, _WORK) for name in options},
    )


def default_name(args: argparse.Namespace) -> str:
    """Return the stem of the Job's name where neither option nor manifest gives one: the file's."""
    return "job" if args.manifest == STDIN else Path(args.manifest).stem


def _capacity(args: argparse.Namespace) -> Capacity | None:
    """Return the capacity that is asked for, with the cluster's own names for it."""
    if args.capacity is None:
        return None
    from airflow_batchjob.hooks.connection import capacity_profiles

    choice = read_choice(args.capacity)
    if isinstance(choice, Problem):
        raise SpecError(choice)
    given = args.defaults if args.defaults is not None else os.environ.get(DEFAULTS, "")
    is_json = not given.strip() or given.lstrip().startswith("{")
    return Capacity(choice=choice, profiles=capacity_profiles({}, given if is_json else _read(given)))


def _option_problems(args: argparse.Namespace) -> Iterator[Problem]:
    for pair in args.variables:
        name, equals, _ = pair.partition("=")
        if not equals or not name.strip():
            yield Problem("--set", pair, "it names no variable", "Write --set NAME=VALUE")


def _read(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        mend = f"Name a file; it was sought in {Path.cwd()}"
        raise SpecError(Problem("MANIFEST", path, "there is no such file", mend)) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise SpecError(
            Problem("MANIFEST", path, f"it can't be read: {why}", "Name a readable file")
        ) from error
    except UnicodeDecodeError as error:
        raise SpecError(Problem("MANIFEST", path, "it is not text in UTF-8", "Name a YAML file")) from error
