"""What a user can read must match what a user can do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import docs

ROOT = Path(__file__).parents[2]


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", docs.PAGES, ids=page_id)
def test_what_a_page_takes_from_the_code_agrees_with_it(page: Path) -> None:
    text = page.read_text()

    assert docs.rewritten(text) == text, "mend: make docs"


@pytest.mark.parametrize("page", docs.PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    assert not list(docs.broken_links(page))


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One heading\n[a](gone.md) [b](#one-heading) [c](#another)\n")

    broken = [problem.rpartition(" ")[2] for problem in docs.broken_links(page)]

    assert broken == ["gone.md", "#another"]


def test_make_commands_in_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for page in docs.PAGES
        for name in re.findall(r"(?:`|^|\n)make ([a-z][a-z0-9-]*)", page.read_text())
    }

    assert named
    assert named <= targets
