"""Text where Kubernetes wants a number, and numbers where it wants text.

Jinja renders text and a variable brings its own type, so `parallelism: "4"` means 4 and an env value
of 4 means "4". Each place has one type, hence no guessing. A *literal* number in a place of text is
an error: YAML has read it already, and what the author wrote (1.10, 007, yes) can't be restored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from airflow_batchjob.core.errors import Problem


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Source: the field lists of batch/v1 Job and core/v1 PodSpec. Fields of type IntOrString and
# quantities are not here: text is right for them.
_NUMBERS = _names(
    "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completions maxFailedIndexes parallelism "
    "succeededCount ttlSecondsAfterFinished containerPort defaultMode expirationSeconds failureThreshold "
    "fsGroup hostPort initialDelaySeconds lun maxExpirationSeconds maxSkew minDomains mode partition "
    "periodSeconds priority runAsGroup runAsUser seconds successThreshold supplementalGroups "
    "terminationGracePeriodSeconds timeoutSeconds tolerationSeconds weight"
)
_FLAGS = _names(
    "allowPrivilegeEscalation automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID "
    "hostUsers manualSelector optional privileged readOnly readOnlyRootFilesystem runAsNonRoot "
    "setHostnameAsFQDN shareProcessNamespace stdin stdinOnce suspend tty"
)
_TEXTS = frozenset(
    {"containerName", "image", "key", "name", "namespace", "status", "succeededIndexes", "value"}
)
_TEXT_LISTS = frozenset({"args", "command"})
_TEXT_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
_FREE_MAPS = frozenset({"limits", "requests", "volumeAttributes"})

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,19}\s*", re.ASCII)


def settle(tree: Any, key: str = "") -> Any:
    """Return a copy of (a part of) a manifest with each scalar in the type that its place wants.

    Null means "absent" to Kubernetes, so it is left out.

    Args:
        tree: Any part of a Job; text that is not a number stays as it is, for validation to name.
        key: The field that holds `tree`.
    """
    if isinstance(tree, Mapping):
        if key in _FREE_MAPS:
            return dict(tree)
        if key in _TEXT_MAPS:
            return {name: as_text(value) for name, value in tree.items()}
        return {name: settle(value, name) for name, value in tree.items() if value is not None}
    if isinstance(tree, list | tuple):
        numeric = key == "values" and all(isinstance(item, int) for item in tree)
        return [item if numeric else settle(item, key) for item in tree]
    if key in _TEXTS or key in _TEXT_LISTS:
        return as_text(tree)
    if isinstance(tree, str):
        return _typed(tree, key)
    return tree


def as_text(value: Any) -> Any:
    """Return a scalar as text, in YAML's spelling; anything else, and None, as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def literal_problems(tree: Any, path: str, key: str = "") -> Iterator[Problem]:
    """Name the numbers, truth values and dates that stand where Kubernetes wants text.

    Args:
        tree: Any part of a Job, before variables are put in.
        path: Where it stands, as its author sees it.
        key: The field that holds it.
    """
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            at = f"{path}.{name}" if path else str(name)
            if key in _TEXT_MAPS:
                yield from _not_text(value, at)
            elif key not in _FREE_MAPS:
                yield from literal_problems(value, at, str(name))
    elif isinstance(tree, list | tuple):
        for place, item in enumerate(tree):
            yield from literal_problems(item, f"{path}[{place}]", key)
    elif key in _TEXTS or key in _TEXT_LISTS:
        yield from _not_text(tree, path, may_be_secret=key == "value")


def _typed(text: str, key: str) -> Any:
    if key in _NUMBERS and _WHOLE.fullmatch(text):
        return int(text)
    if key in _FLAGS and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    return text


def _not_text(value: Any, path: str, *, may_be_secret: bool = False) -> Iterator[Problem]:
    if isinstance(value, bool | int | float | date):
        kind = (
            "a truth value"
            if isinstance(value, bool)
            else "a date"
            if isinstance(value, date)
            else "a number"
        )
        shown = str(value) if isinstance(value, date) else value
        why = f"{kind} stands where Kubernetes wants text"
        yield Problem(path, "(not shown)" if may_be_secret else shown, why, "Quote it")
