"""From YAML text to a Job as a mapping, and from an export to what its author wrote.

Kubernetes' tools and this package's own supervisor leave marks on a Job that must not be sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.identity.marks import PREFIX
from airflow_batchjob.core.wording import counted

API_VERSION = "batch/v1"
KIND = "Job"


# What the server, kubectl and this package write, by the mapping that holds it.
_SERVER_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_GENERATED_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)
_GENERATED_ANNOTATIONS = (
    "batch.kubernetes.io/job-tracking",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_SECRET_KEY = re.compile(r"(?i)value|passw|secret|token|key|auth|credential")
_MOST_NODES = 200_000  # a Job of a megabyte, Kubernetes' limit, has fewer
_GENERATED_FINALIZERS = ("foregroundDeletion", "orphan")


def load_manifest(text: str, *, partial: bool = False) -> dict[str, Any]:
    """Return the Job that `text` describes.

    Args:
        text: YAML (or JSON) with one document.
        partial: The manifest may lack `apiVersion` and `kind`: the rest comes from parameters.

    Raises:
        SpecError: It isn't YAML, or not one batch/v1 Job; with the line and the mend.
    """
    try:
        documents = [tree for tree in yaml.load_all(text, Loader=_Loader) if tree is not None]
    except yaml.MarkedYAMLError as error:
        raise SpecError(_not_yaml(text, error)) from error
    except yaml.YAMLError as error:  # a character that YAML doesn't know has no mark
        raise SpecError(Problem("manifest", _cut(text), f"not YAML: {error}", "Write plain UTF-8")) from error
    except ValueError as error:  # what looks like a date or a number, and is none
        raise SpecError(Problem("manifest", _cut(text), f"not YAML: {error}", "Quote that value")) from error
    except RecursionError as error:
        raise SpecError(Problem("manifest", _cut(text), "it is nested too deeply", "Flatten it")) from error
    if len(documents) > 1:
        kinds = ", ".join(_kind_of(tree) for tree in documents)
        why = f"it has {len(documents)} documents ({kinds})"
        raise SpecError(Problem("manifest", _cut(text), why, "Keep the Job alone; apply the rest beforehand"))
    tree = documents[0] if documents else None
    if _is_larger_than(_MOST_NODES, tree):
        why = f"with its aliases written out it has more than {_MOST_NODES} values"
        raise SpecError(Problem("manifest", _cut(text), why, "Use fewer aliases"))
    return check_job(tree, partial=partial)


def check_job(tree: object, *, partial: bool = False) -> dict[str, Any]:
    """Return `tree` where it is one batch/v1 Job by its outermost fields.

    Raises:
        SpecError: It is something else.
    """
    if tree is None:
        raise SpecError(Problem("manifest", tree, "it is empty", "Give a batch/v1 Job"))
    if isinstance(tree, list):
        why = f"it is a list of {counted(len(tree), 'object')}"
        raise SpecError(Problem("manifest", _kind_of(tree), why, "Give the Job alone, without the list"))
    if not isinstance(tree, Mapping):
        mend = "Give the Job's YAML; a file is named by a path that ends in .yaml, .yml or .json"
        raise SpecError(Problem("manifest", _cut(str(tree)), "it is not a mapping", mend))
    job = dict(tree)
    if partial:
        job.setdefault("apiVersion", API_VERSION)
        job.setdefault("kind", KIND)
    if problems := list(_wrong_kind(job)):
        raise SpecError(*problems)
    return job


def strip_export(job: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of `job` without what others wrote into it, and the paths that were left out.

    A selector of the author's own (`manualSelector: true`) stays. So does a `suspend: true`.
    """
    gone: list[str] = []
    bare = _without(job, ("status",), "", gone)
    if isinstance(metadata := bare.get("metadata"), Mapping):
        bare["metadata"] = _bare_metadata(metadata, "metadata", gone)
    if isinstance(spec := bare.get("spec"), Mapping):
        bare["spec"] = spec = _without(
            spec, () if spec.get("manualSelector") else ("selector",), "spec", gone
        )
        template = spec.get("template")
        if isinstance(template, Mapping) and isinstance(metadata := template.get("metadata"), Mapping):
            kept = _bare_metadata(metadata, "spec.template.metadata", gone)
            others = {key: value for key, value in template.items() if key != "metadata"}
            spec["template"] = {"metadata": kept, **others} if kept or not metadata else others
    return bare, tuple(gone)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where it is there
    """Plain values alone, and no key twice: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value != "<<":
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key_node.value!r} stands there twice", key_node.start_mark
                    )
                seen.add(key_node.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def _is_larger_than(limit: int, tree: Any) -> bool:
    # A few aliases of aliases stand for millions of values, and one of itself for endlessly many.
    left, pending = limit, [tree]
    while pending and left:
        left -= 1
        node = pending.pop()
        if isinstance(node, Mapping):
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return bool(pending)


def _not_yaml(text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    at = mark.line if mark else 0
    lines = text.splitlines()
    # libyaml sees the trouble a line late where a bracket or quote is left open.
    near = next((line for line in reversed(lines[: at + 1]) if line.strip()), "")
    found = f"line {at + 1}: {error.problem or error.context}"
    suspects = lines[max(0, at - 1) : at + 1]
    if any("{{" in line or "{%" in line for line in suspects):
        mend = 'Quote the value that holds Jinja, e.g. "{{ ds }}"'
    elif any("${" in line for line in suspects):
        mend = 'Quote the value that holds a variable, e.g. "${NAME}"'
    elif any("\t" in line for line in suspects):
        mend = "Indent with spaces, not tabs"
    else:
        mend = "Mend the YAML at that line"
    return Problem("manifest", _cut(_without_secrets(near.strip())), f"not YAML, {found}", mend)


def _without_secrets(line: str) -> str:
    """Return a line of a manifest, without what stands behind a key that may name a secret."""
    key, colon, value = line.partition(":")
    return f"{key}: …" if colon and value.strip() and _SECRET_KEY.search(key) else line


def _wrong_kind(job: Mapping[str, Any]) -> Iterator[Problem]:
    version, kind = job.get("apiVersion"), job.get("kind")
    if kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in job):
        yield Problem("manifest.kind", kind, "it is a list", "Give the Job alone, without the list")
    elif kind != KIND:
        mend = (
            "Put the pod template into a batch/v1 Job"
            if kind in ("Pod", "CronJob")
            else "Give a batch/v1 Job"
        )
        yield Problem("manifest.kind", kind, "not a Job" if kind else "missing", mend)
    elif version != API_VERSION:
        why = "not the version of Job that is sent" if version else "missing"
        yield Problem("manifest.apiVersion", version, why, f"Write {API_VERSION}")


def _bare_metadata(metadata: Mapping[str, Any], path: str, gone: list[str]) -> dict[str, Any]:
    bare = _without(metadata, _SERVER_METADATA, path, gone)
    for field, generated in (("labels", _GENERATED_LABELS), ("annotations", _GENERATED_ANNOTATIONS)):
        if isinstance(marks := bare.get(field), Mapping):
            ours = tuple(key for key in marks if str(key).startswith(PREFIX))
            kept = _without(marks, generated + ours, f"{path}.{field}", gone)
            bare[field] = kept
            if not kept:
                del bare[field]
    finalizers = bare.get("finalizers")
    if isinstance(finalizers, list) and set(map(str, finalizers)) & set(_GENERATED_FINALIZERS):
        gone.append(f"{path}.finalizers")
        bare["finalizers"] = [name for name in finalizers if name not in _GENERATED_FINALIZERS]
    return bare


def _without(mapping: Mapping[str, Any], keys: tuple[str, ...], path: str, gone: list[str]) -> dict[str, Any]:
    gone.extend(f"{path}.{key}" if path else key for key in keys if key in mapping)
    return {key: value for key, value in mapping.items() if key not in keys}


def _kind_of(tree: object) -> str:
    if isinstance(tree, Mapping):
        return str(tree.get("kind") or "a mapping without a kind")
    return "a list" if isinstance(tree, list) else f"{type(tree).__name__}"


def _cut(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
