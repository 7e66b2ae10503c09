"""A Job as YAML for people: fields in kubectl's order, long text in blocks, nothing folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def write_yaml(job: Mapping[str, Any]) -> str:
    """Return `job` as YAML that is the same for the same Job, however it was put together."""
    text: str = yaml.dump(job, Dumper=_Dumper, sort_keys=True, width=2**20, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - an anchor would puzzle readers
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)
