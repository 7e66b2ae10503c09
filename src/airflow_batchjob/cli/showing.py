"""What a run shows on standard error: a live line on a terminal, else plain lines now and then."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_batchjob.core.telling.progress import Progress

Show = Callable[["Progress"], None]


@contextmanager
def shown(title: str) -> Iterator[tuple[logging.Logger, Show | None]]:
    """Yield a logger, and what shows progress: None where progress lines go to the logger, too.

    Args:
        title: What is run.
    """
    log = logging.getLogger("airflow_batchjob.run")
    log.setLevel(logging.INFO)
    log.propagate = False
    showing = _on_terminal(log, title) if sys.stderr.isatty() else _plainly(log)
    with showing as show:
        yield log, show


@contextmanager
def _plainly(log: logging.Logger) -> Iterator[Show | None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    with _handled(log, handler):
        yield None


@contextmanager
def _on_terminal(log: logging.Logger, title: str) -> Iterator[Show | None]:
    from rich.console import Console
    from rich.highlighter import NullHighlighter
    from rich.logging import RichHandler
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from airflow_batchjob.core.telling.progress import progress_line

    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, markup=False, highlighter=NullHighlighter())
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[line]}", markup=False),
        TimeElapsedColumn(),
    )
    with _handled(log, handler), Bars(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, line="submitting")

        def show(progress: Progress) -> None:
            ended = progress.done + progress.failed
            bar.update(task, total=progress.completions, completed=ended, line=progress_line(progress))

        yield show


@contextmanager
def _handled(log: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
