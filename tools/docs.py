"""Write the parts of the pages that are made from code, or say where a page and the code differ.

A page marks such a part by a comment, and this fills what stands between it and the next `<!-- end -->`:

    <!-- quote dags/FILE.py NAME -->         the lines between `# [START NAME]` and `# [END NAME]`
    <!-- parameters PACKAGE.MODULE.CLASS -->  a table from the class's docstring
    <!-- mapping PACKAGE.MODULE.NAME -->      a table of a mapping's keys and values
    <!-- kinds PACKAGE.MODULE.NAME -->        a table of the kinds of objects that the local cluster serves
    <!-- made PACKAGE.MODULE.NAME WORDS -->  what that function makes of the words

`--check` changes nothing, and looks at links too.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("dags/*.md"),
        *ROOT.glob("changelog.d/README.md"),
    ]
)

_PART = re.compile(
    r"(?P<mark>^<!-- (?P<kind>quote|parameters|mapping|kinds|made) (?P<of>[^>]+?) -->\n)"
    r".*?(?P<end>^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "shell"}


def rewritten(text: str) -> str:
    """Return a page's text with each generated part made anew."""
    makers = {"quote": quote, "parameters": parameters, "mapping": mapping, "kinds": kinds, "made": made}
    return _PART.sub(lambda part: f"{part['mark']}{makers[part['kind']](part['of'])}\n{part['end']}", text)


def quote(of: str) -> str:
    """Return the marked lines of a file as a code block; without a name, the whole file."""
    path, _, name = of.partition(" ")
    text = (ROOT / path).read_text()
    if name:
        found = re.search(
            rf"# \[START {name}\]\n(.*?)^[ \t]*# \[END {name}\]", text, re.MULTILINE | re.DOTALL
        )
        if not found:
            message = f"{path} has no '# [START {name}]' with its '# [END {name}]'"
            raise SystemExit(message)
        text = found[1]
    return f"```{_LANGUAGES[Path(path).suffix]}\n{textwrap.dedent(text).strip()}\n```"


def parameters(of: str) -> str:
    """Return a table of a class's parameters: name, default, meaning."""
    cls = _named(of)
    said = documented(cls)
    rows = [
        f"| `{parameter.name}` | {_default(parameter)} | {said.get(parameter.name, '')} |"
        for parameter in asked(cls)
    ]
    return "\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows])


def mapping(of: str) -> str:
    """Return a table of a mapping: keys that have one value share a row."""
    keys: dict[str, list[str]] = {}
    for key, value in _named(of).items():
        keys.setdefault(value, []).append(f"`{key}`")
    rows = [f"| {', '.join(names)} | {value} |" for value, names in keys.items()]
    return "\n".join(["| there | here |", "|---|---|", *rows])


def kinds(of: str) -> str:
    """Return a table of kinds of objects, with what can be done to them."""
    cells = [
        (it.api_version, it.kind, ", ".join(it.verbs), ", ".join(part.name for part in it.subresources))
        for it in _named(of)
    ]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(["| API | kind | verbs | parts |", "|---|---|---|---|", *rows])


def made(of: str) -> str:
    """Return what a function makes of the words after its name."""
    name, _, words = of.partition(" ")
    text: str = _named(name)(words)
    return text


def _named(of: str) -> Any:
    module, _, name = of.rpartition(".")
    return getattr(importlib.import_module(module), name)


def asked(cls: type) -> list[inspect.Parameter]:
    """Return the parameters of a class that its `__init__` names."""
    named = inspect.signature(inspect.unwrap(cls.__init__)).parameters.values()  # type: ignore[misc]
    return [it for it in named if it.name != "self" and it.kind is not it.VAR_KEYWORD]


def documented(cls: type) -> dict[str, str]:
    """Return what the `Args:` of a class's docstring says of each parameter, on one line each."""
    _, _, args = (inspect.getdoc(cls) or "").partition("\nArgs:\n")
    section = re.split(r"^\S", args, maxsplit=1, flags=re.MULTILINE)[0]
    entries = re.findall(
        r"^    (\w+)(?: \([^)]*\))?: (.*(?:\n {5,}.*|\n(?=\n {5,}))*)", section, re.MULTILINE
    )
    return {name: " ".join(text.split()).replace("|", "\\|") for name, text in entries}


def _default(parameter: inspect.Parameter) -> str:
    value: Any = parameter.default
    if value is parameter.empty:
        return "required"
    if repr(value).startswith("<"):  # a mark for "not given" has no spelling
        return ""
    return f"`{value!r}`" if not isinstance(value, str) else f'`"{value}"`'


def broken_links(page: Path) -> Iterator[str]:
    """Yield each link of a page to a file or a heading that is not there."""
    for target in _targets(MarkdownIt("commonmark").enable("table").parse(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists():
            yield f"{_id(page)}: there is no {target}"
        elif heading and heading not in headings(to):
            yield f"{_id(page)}: {_id(to)} has no heading #{heading}"


def _targets(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        for name in ("href", "src"):
            if value := token.attrs.get(name):
                yield str(value)
        yield from _targets(token.children or [])


def headings(page: Path) -> set[str]:
    """Return the anchors that a forge makes of a page's headings."""
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    texts = [after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def differences() -> list[str]:
    """Return what differs between pages and code, a line each."""
    stale = [f"{_id(page)}: differs from the code; mend: make docs" for page in PAGES if _is_stale(page)]
    return stale + [problem for page in PAGES for problem in broken_links(page)]


def _is_stale(page: Path) -> bool:
    text = page.read_text()
    return rewritten(text) != text


def main() -> None:
    """Write, or with `--check` look."""
    if "--check" not in sys.argv:
        changed = [page for page in PAGES if _is_stale(page)]
        for page in changed:
            page.write_text(rewritten(page.read_text()))
        print(f"docs: wrote {', '.join(map(_id, changed)) or 'nothing: all pages agree with the code'}")
    if problems := differences():
        sys.exit("\n".join(["docs:", *problems]))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # tools/ and tests/, by their full names
    main()
