"""Makes schema.json from Kubernetes' own OpenAPI document; run once for each new version of it.

``python -m airflow_batchjob.local.api.schema_source v1.37.2 .../api/openapi-spec/swagger.json``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
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


def main(version: str, swagger: str) -> None:
    """Write schema.json next to this module."""
    types = compact(json.loads(Path(swagger).read_text()))
    text = json.dumps({"kubernetes": version, "types": types}, separators=(",", ":"))
    Path(__file__).with_name("schema.json").write_text(text.replace("},", "},\n") + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
