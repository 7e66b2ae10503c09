"""Objects that stand for parts of a manifest, as plain dicts in Kubernetes' spelling.

Models of `kubernetes.client` and Airflow's `Secret` are recognised by what they have: importing
either costs more than everything else that a DAG file does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError

_SECRET_HAS = ("deploy_type", "deploy_target", "secret", "key")
_MODEL_HAS = ("to_dict", "attribute_map", "openapi_types")
_LONGEST_NAME = 63


def plain(value: Any, field: str = "") -> Any:
    """Return a copy of `value` in which every model and `Secret` is a plain dict.

    A model's unset attributes are left out; None in a dict stays, since there it says "remove".

    Args:
        value: Anything that may stand in a manifest or a parameter.
        field: Whose value it is. It tells what a `Secret` that is a file means: a volume in
            "volumes", a mount in "volumeMounts".

    Raises:
        SpecError: A `Secret` that is a file stands where neither a volume nor a mount can.
    """
    if isinstance(value, Mapping):
        return {key: plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, field) for item in value]
    if isinstance(value, type):
        return value
    if all(hasattr(value, name) for name in _MODEL_HAS):
        spellings: Mapping[str, str] = value.attribute_map
        found = {key: getattr(value, name) for name, key in spellings.items()}
        return {key: _of_a_model(item, key) for key, item in found.items() if item is not None}
    if all(hasattr(value, name) for name in _SECRET_HAS):
        return _secret(value, field)
    return value


def _of_a_model(value: Any, field: str) -> Any:
    return value.isoformat() if isinstance(value, date) else plain(value, field)


def _secret(secret: Any, field: str) -> dict[str, Any]:
    if secret.deploy_type == "env":
        if secret.key is None:
            return {"secretRef": {"name": secret.secret}}
        source = {"secretKeyRef": {"name": secret.secret, "key": secret.key}}
        return {"name": secret.deploy_target, "valueFrom": source}
    items = plain(getattr(secret, "items", None) or [])
    name = _volume_name(secret.secret, items)
    if field == "volumes":
        return {"name": name, "secret": {"secretName": secret.secret, **({"items": items} if items else {})}}
    if field == "volumeMounts":
        return {"name": name, "mountPath": secret.deploy_target, "readOnly": True}
    why = "a Secret that is a file needs a volume and a mount"
    mend = 'Put the same Secret into "volumes" and into a container\'s "volumeMounts" of pod='
    raise SpecError(Problem(field or "Secret", repr(secret), why, mend))


def _volume_name(secret: str, items: list[Any]) -> str:
    # The volume and its mounts are converted apart and must agree on the name.
    words = re.sub(r"[^a-z0-9]+", "-", secret.lower()).strip("-")
    tail = hashlib.sha256(json.dumps([secret, items], sort_keys=True).encode()).hexdigest()[:8]
    return f"secret-{words[: _LONGEST_NAME - 17].rstrip('-')}-{tail}"
