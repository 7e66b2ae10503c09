"""Tables of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may hold anything but line ends."""
    lines = [head, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    texts = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([texts[0], f"|{'---|' * len(head)}", *texts[1:]])
