"""The changelog, the version and the fragments agree."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from airflow_batchjob.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
VERSION = importlib.metadata.version("airflow-batchjob")
FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")


def test_the_provider_says_the_version_that_is_installed() -> None:
    assert get_provider_info()["versions"][0] == VERSION


def test_the_changelog_ends_where_the_version_stands() -> None:
    released = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    # Before the first release, all there is are fragments.
    assert released[:1] == [VERSION] or (not released and FRAGMENTS)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_says_what_is_different_for_a_user(path: Path) -> None:
    assert re.fullmatch(r"\+?[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name)
    assert path.read_text().strip().endswith(".")
