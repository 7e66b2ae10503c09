"""May I? Whoever has the token may do all that is served."""

from __future__ import annotations

from airflow_batchjob.local.api.bodies import read_object
from airflow_batchjob.local.api.request import Request, Response
from airflow_batchjob.local.api.resources import ACCESS_REVIEWS
from airflow_batchjob.local.api.status import invalid, invalid_object


def review(request: Request) -> Response:
    """Answer a SelfSubjectAccessReview.

    Raises:
        Refused: 400 or 422.
    """
    body = read_object(request, ACCESS_REVIEWS)
    spec = body.object.get("spec") or {}
    if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
        words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid_object("", "authorization.k8s.io", "", [invalid("spec", None, words)])
    status = {"allowed": True, "reason": "the local cluster's token may do everything that is served"}
    return Response(code=201, body={**body.object, "status": status}, warnings=body.warnings)
