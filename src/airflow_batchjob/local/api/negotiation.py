"""In which form an answer is wanted: the object itself, or rows of a table as `kubectl get` asks for."""

from __future__ import annotations

from enum import Enum

from airflow_batchjob.local.api.request import Request
from airflow_batchjob.local.api.status import Refused, failure


class Form(str, Enum):
    """What the client takes."""

    OBJECT = "object"
    TABLE = "table"


def wanted_form(request: Request) -> Form:
    """Return the first form of the Accept header that is served.

    Raises:
        Refused: 406, none is.
    """
    accept = request.headers.get("accept", "") or "*/*"
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media not in ("application/json", "application/*", "*/*"):
            continue
        match asked.get("as"):
            case None:
                return Form.OBJECT
            case "Table" if asked.get("v") == "v1":
                return Form.TABLE
    message = f"only the following media types are accepted: application/json (asked for: {accept})"
    raise Refused(failure(406, "NotAcceptable", message, {}))
