"""From the shards' results to figures, a picture and a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from python_sources.picture import Ran, draw

LARGEST = 12
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Python sources</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
td, th {{ text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top }}
td:first-child {{ overflow-wrap: anywhere }} svg {{ max-width: 100% }}
</style>
<h1>Every Python file of this installation</h1>
<p>{sentence}</p>
{picture}
<h2>{broken_count} files do not parse</h2>
<p>They count as input that is wrong, not as failures of their shards.</p>
<table><tr><th>file</th><th>what Python says</th></tr>
{broken}
</table>
</html>
"""


def write_report(folder: Path, shards: int) -> dict[str, Any]:
    """Write FOLDER/report.html, report.svg and report.json, and return the figures and both paths.

    Raises:
        FileNotFoundError: A shard has left no result.
    """
    results = [json.loads((folder / "results" / f"{index}.json").read_text()) for index in range(shards)]
    packages = total_by_package(results)
    broken = {name: why for result in results for name, why in result["broken"].items()}
    figures = Counter(broken=len(broken), packages=len(packages))
    for of_package in packages.values():
        figures.update(of_package)
    picture = draw(when_shards_ran(results), largest(packages))
    (folder / "report.svg").write_text(picture)
    page = PAGE.format(
        sentence=escape(sentence(figures)),
        picture=picture,
        broken_count=len(broken),
        broken="\n".join(
            f"<tr><td>{escape(name)}</td><td>{escape(why)}</td></tr>" for name, why in sorted(broken.items())
        ),
    )
    (folder / "report.html").write_text(page)
    paths = {"report": str(folder / "report.html"), "picture": str(folder / "report.svg")}
    told = dict(figures) | {"sentence": sentence(figures)} | paths
    (folder / "report.json").write_text(json.dumps(told, indent=2))
    return told


def total_by_package(results: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Add up each package's figures over all shards."""
    packages: dict[str, Counter[str]] = {}
    for result in results:
        for name, figures in result["packages"].items():
            packages.setdefault(name, Counter()).update(figures)
    return packages


def largest(packages: Mapping[str, Counter[str]]) -> list[tuple[str, int]]:
    """Return the packages with most lines, and how many these are."""
    by_lines = sorted(packages, key=lambda name: -packages[name]["lines"])
    return [(name, packages[name]["lines"]) for name in by_lines[:LARGEST]]


def when_shards_ran(results: Sequence[Mapping[str, Any]]) -> list[Ran]:
    """Return the shards' times, counted from the first one's start."""
    first = min(result["started"] for result in results)
    return [Ran(it["index"], it["started"] - first, it["ended"] - first, len(it["broken"])) for it in results]


def sentence(figures: Counter[str]) -> str:
    """Return the figures that people ask for."""
    return (
        f"{figures['files']:,} files of {figures['packages']:,} packages: {figures['lines']:,} lines, "
        f"{figures['functions']:,} functions, {figures['classes']:,} classes, "
        f"{figures['statements']:,} statements. {figures['broken']} files do not parse."
    )
