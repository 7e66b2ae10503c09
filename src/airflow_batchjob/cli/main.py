"""The one entry point of the command line: `batchjob COMMAND …`.

Each command is a module with `add_parser(subparsers)`, which sets `run`. Its own imports are light;
what is heavy is imported when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiUnavailableError,
    BatchJobError,
    ExpiredError,
    JobFailedError,
    SpecError,
    TaskCutError,
)

COMMANDS = ("render", "run", "rerun", "doctor", "local")

EXIT_FAILED = 1
EXIT_PROBLEMS = 2
EXIT_UNREACHABLE = 3
_EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0: done. 1: it failed. 2: what was asked for is wrong, or refused. 3: the cluster can't be reached,
        or says to come back later. 130: interrupted.
    """
    if sys.platform == "win32":
        print("batchjob runs on Linux and macOS; on Windows, use it inside WSL.", file=sys.stderr)
        return EXIT_PROBLEMS
    words = list(sys.argv[1:] if argv is None else argv)
    args = _parser(words).parse_args(words)
    try:
        return int(args.run(args))
    except SpecError as error:
        _say(*map(str, error.problems))
        return EXIT_PROBLEMS
    except BatchJobError as error:
        _say(str(error))
        return _exit_code(error)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def _exit_code(error: BatchJobError) -> int:
    match error:
        case JobFailedError() | TaskCutError():
            return EXIT_FAILED
        case ApiUnavailableError() | ApiConflictError() | ExpiredError():
            return EXIT_UNREACHABLE
        case _:  # refused, not there, or someone else's: asking again would not help
            return EXIT_PROBLEMS


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="batchjob", description="Batches of containers as Kubernetes Indexed Jobs."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Only the command that is asked for is imported; all of them where none is, for the help.
    named = [command for command in COMMANDS if words[:1] == [command]]
    for command in named or COMMANDS:
        import_module(f"airflow_batchjob.cli.{command}").add_parser(commands)
    return parser


def _say(*problems: str) -> None:
    for problem in problems:
        print(f"batchjob: {problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
