"""The three kinds of patch, by content type; the fourth, server-side apply, is refused."""

from __future__ import annotations

from typing import Any

from airflow_batchjob.local.api.jsonpatch import (
    CannotApply,
    apply_json_patch,
    apply_merge_patch,
    check_operations,
)
from airflow_batchjob.local.api.request import Request
from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.schema import parse_json
from airflow_batchjob.local.api.status import bad_request, unprocessable, unsupported_media_type
from airflow_batchjob.local.api.strategic import BadPatch, apply_strategic_patch
from airflow_batchjob.local.store import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
SERVED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def check_patch_type(request: Request) -> None:
    """Check that the request's body is one of the three kinds; before the object is looked for.

    Raises:
        Refused: 415.
    """
    kind = request.content_type
    if kind in SERVED:
        return
    why = (
        "server-side apply is not served here"
        if "apply-patch" in kind
        else f"{kind or 'no content type'} is no patch"
    )
    raise unsupported_media_type(f"{why}; accepted media types include: {', '.join(SERVED)}")


def patched(request: Request, resource: Resource, current: Object) -> Any:
    """Return the object as the request's patch makes it: a JSON tree, not yet read as its kind.

    The content type has been checked.

    Raises:
        Refused: 400 for what is no patch, 422 for one that does not apply.
    """
    kind = request.content_type
    try:
        patch = parse_json(request.body)
        if kind == JSON_PATCH:
            return apply_json_patch(current, check_operations(patch))
        if not isinstance(patch, dict):
            raise bad_request("a merge patch is an object")
        if kind == MERGE_PATCH:
            return apply_merge_patch(current, patch)
        return apply_strategic_patch(resource.schema_type, current, patch)
    except CannotApply:
        raise unprocessable() from None
    except (BadPatch, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
