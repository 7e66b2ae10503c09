"""Tells Airflow's masker what must not be seen of a task's parameters, before anything shows them.

Airflow masks values that stand under a telling key. An environment in a manifest has its names beside
its values, options of a command before theirs, and a manifest may be text: all are looked through here.
Which names tell of a secret is Airflow's to say, as is its setting `[core] sensitive_var_conn_names`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from airflow_batchjob.compat import mask_secret

if TYPE_CHECKING:
    from airflow_batchjob.operators.batchjob import BatchJobOperator

_MOST_NODES = 200_000  # a Job of a megabyte has fewer
_FIELDS = ("env", "variables", "manifest", "pod", "annotations", "labels", "command", "args")


def mask(given: BatchJobOperator) -> None:
    """Register each value of the rendered parameters that stands under a name of its own."""
    for field in _FIELDS:
        for name, value in _named(_read(getattr(given, field))):
            mask_secret(value, name)


def _read(value: Any) -> Any:
    """Return what a manifest's text says; what is no YAML is reported by whoever builds the Job."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _named(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield every text in `tree` with the name that it stands under."""
    pending, left = [tree], _MOST_NODES
    while pending and left:
        left -= 1
        node = pending.pop()
        if isinstance(node, Mapping):
            if isinstance(node.get("name"), str) and isinstance(node.get("value"), str):
                yield node["name"], node["value"]
            for name, value in node.items():
                if isinstance(value, str):
                    yield str(name), value
                else:
                    pending.append(value)
        elif isinstance(node, list | tuple):
            pending.extend(node)
            yield from _options([word for word in node if isinstance(word, str)])


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what command line options say: `--token=VALUE`, and `--token VALUE`."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        if not option.startswith("-") or " " in option:
            continue
        if equals:
            yield option, value
        elif following and not following.startswith("-"):
            yield option, following
