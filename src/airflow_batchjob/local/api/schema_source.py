"""Makes schema.json from Kubernetes' own sources; run once for each new version of it.

``python -m airflow_batchjob.local.api.schema_source v1.37.2 …/swagger.json FOLDER…``, with the folders (of
the modules api and apimachinery) that hold types.go and generated.proto of core, batch, events, policy,
authorization and meta, all v1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOTS = (
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Namespace",
    "io.k8s.api.core.v1.ServiceAccount",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)

Types = Mapping[str, Mapping[str, str]]

_PROTO_FIELD = re.compile(r"(?:optional|repeated)?\s*(map<[^>]+>|[\w.]+)\s+(\w+)\s*=\s*(\d+);")
_GO_FIELD = re.compile(r"^\s*\w+\s+([\w.\[\]*]+)\s+`json:\"(\w+),omitempty", re.MULTILINE)
_HAVE_ZERO = frozenset({"boolean", "int32", "int64", "string"})
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}


def compact(swagger: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the types reachable from `ROOTS`: name → field → type, as `schema` reads them."""
    definitions = swagger["definitions"]
    types: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        full = waiting.pop()
        name = _short(full)
        if name in types:
            continue
        fields = types[name] = {}
        for field, about in definitions[full].get("properties", {}).items():
            fields[field], needed = _type_of(about)
            waiting += needed
    return dict(sorted(types.items()))


def _type_of(about: Mapping[str, Any]) -> tuple[str, list[str]]:
    if "$ref" in about:
        full = about["$ref"].rpartition("/")[2]
        return (_SCALARS[full], []) if full in _SCALARS else (_short(full), [full])
    match about.get("type"):
        case "array":
            inner, needed = _type_of(about["items"])
            merge = about.get("x-kubernetes-patch-strategy", "")
            key = about.get("x-kubernetes-patch-merge-key", "")
            return f"[]{inner}" + (f"@{key}" if "merge" in merge else ""), needed
        case "object" if "additionalProperties" in about:
            inner, needed = _type_of(about["additionalProperties"])
            return f"{{}}{inner}", needed
        case "integer":
            return about.get("format", "int64"), []
        case "boolean" | "number" as scalar:
            return scalar, []
        case "string":
            return ("bytes" if about.get("format") == "byte" else "string"), []
    return "any", []


def _short(full: str) -> str:
    # Two types are called Event.
    return "events.Event" if full == "io.k8s.api.events.v1.Event" else full.rpartition(".")[2]


def numbers(folders: Iterable[Path], types: Types) -> dict[str, dict[str, str]]:
    """Return the number of each field in protocol buffers: type → number → field.

    A field that JSON does not show, since its type is embedded, is ``=`` and that type.
    """
    found: dict[str, dict[str, str]] = {}
    for folder in folders:
        text = re.sub(r"//[^\n]*", "", (folder / "generated.proto").read_text())
        for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            name = _named(message, folder)
            found[name] = {
                number: _field(types.get(name, {}), field, type_.rpartition(".")[2])
                for type_, field, number in _PROTO_FIELD.findall(body)
            }
    kept = set(types)
    for name in types:
        kept |= {field[1:] for field in found.get(name, {}).values() if field.startswith("=")}
    return {name: fields for name, fields in sorted(found.items()) if name in kept}


def _field(fields: Mapping[str, str], name: str, type_: str) -> str:
    return name if name in fields or not fields else f"={type_}"


def zeros_left_out(folders: Iterable[Path], types: Types) -> dict[str, list[str]]:
    """Return the fields that are left out where they are false, 0 or empty: in Go, no pointer."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        text = (folder / "types.go").read_text()
        for struct, body in re.findall(r"^type (\w+) struct \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            name = _named(struct, folder)
            plain = [field for type_, field in _GO_FIELD.findall(body) if type_[0] not in "*[m"]
            kept = [field for field in plain if types.get(name, {}).get(field) in _HAVE_ZERO]
            if kept:
                found[name] = kept
    return dict(sorted(found.items()))


def _named(type_: str, folder: Path) -> str:
    return "events.Event" if type_ == "Event" and "events" in folder.parts else type_


def main(version: str, swagger: str, *folders: str) -> None:
    """Write schema.json next to this module."""
    types = compact(json.loads(Path(swagger).read_text()))
    paths = [Path(folder) for folder in folders]
    document = {
        "kubernetes": version,
        "types": types,
        "numbers": numbers(paths, types),
        "zerosLeftOut": zeros_left_out(paths, types),
    }
    text = json.dumps(document, separators=(",", ":"))
    Path(__file__).with_name("schema.json").write_text(text.replace("},", "},\n") + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
