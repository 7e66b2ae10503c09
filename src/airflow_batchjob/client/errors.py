"""From an answer of the API, or none, to an error of ours: the one place that knows status codes.

A `Status` says more than the code: a missing Job and a missing namespace are both 404. A body that
is no `Status` (a proxy's page, a token echoed back) is dropped, and long text is cut: error texts
end in logs.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
import msgspec

from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiError,
    ApiRefusedError,
    ApiUnavailableError,
    ExpiredError,
    NotFoundError,
)

log = logging.getLogger(__name__)

LONGEST_RETRY_AFTER_SECONDS = 60.0
LONGEST_MESSAGE = 1000  # characters

_NO_STATUS = "the answer holds no explanation that Kubernetes gave"

_MEND = {
    400: "The server's message says what to change",
    401: "Check the connection's credentials",
    403: "Give the account this right with a Role; `batchjob doctor` prints one",
    404: "Check that the server is a Kubernetes API and serves this resource",
    422: "The server's message says which field to change",
}

# A refused change of a template is answered with the whole object, environment and all.
_DUMPED_VALUE = re.compile(r"(Invalid value: )[\w.\[\]*&]*\{.*\}(?=: )", re.DOTALL)


class Details(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """A `meta/v1` Status, as far as it is read."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_NOTHING = Status()


def read_status_body(body: bytes) -> Status:
    """Return the Status in `body`; an empty one where `body` is anything else."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _NOTHING
    return status if status.kind == "Status" else _NOTHING


def error_for(
    what: str, code: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None
) -> ApiError:
    """Return the error for an answer that is no success.

    Args:
        what: What was asked, e.g. "get Job ml/embed".
        code: The HTTP status code.
        body: The answer's body, in whole or its beginning.
        headers: The answer's headers; only `Retry-After` is read.
        now: The time against which a date in `Retry-After` is held; None: the clock's.
    """
    status = read_status_body(body)
    header = headers.get("Retry-After")
    seconds = retry_after_seconds(header, now or datetime.now(timezone.utc)) if header else None
    return error_for_status(what, status, code=code, retry_after=seconds)


def error_for_status(
    what: str, status: Status, *, code: int | None = None, retry_after: float | None = None
) -> ApiError:
    """Return the error for a Status, such as the object of a watch's ERROR event."""
    code = status.code if code is None else code
    reason = status.reason or _phrase(code)
    kind = status.details.kind if status.details else ""
    message = brief(status.message) or _NO_STATUS
    if code == HTTPStatus.NOT_FOUND and kind and kind != "namespaces":
        return NotFoundError(what, code=code, reason=reason, message=message)
    if code == HTTPStatus.CONFLICT:
        return ApiConflictError(what, code=code, reason=reason, message=message)
    if code == HTTPStatus.GONE:
        return ExpiredError(what, code=code, reason=reason, message=message)
    if code in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS} or code >= 500:
        if retry_after is None and status.details and status.details.retry_after_seconds > 0:
            retry_after = min(status.details.retry_after_seconds, LONGEST_RETRY_AFTER_SECONDS)
        return ApiUnavailableError(
            what, code=code, reason=reason, message=message, retry_after_seconds=retry_after
        )
    mend = "Create the namespace, or name another" if kind == "namespaces" else _MEND.get(code)
    return ApiRefusedError(what, code=code, reason=reason, message=_with_mend(message, mend))


def error_for_exception(what: str, server: str, raised: BaseException) -> ApiError:
    """Return the error for a request that got no answer.

    Raise it `from None`: a traceback would show the text of `raised`, with a proxy's password in it.

    Args:
        what: What was asked.
        server: The server's address, for whoever has to mend it.
        raised: What the transport raised.
    """
    mend: str | None
    log.debug("%s: %s", what, _kind(raised))
    match raised:
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            why = f"{server} shows a certificate that is not trusted ({_certificate_trouble(raised)})"
            mend = "Give the cluster's CA in the kubeconfig, or check that this is the right server"
            return ApiRefusedError(what, message=_with_mend(why, mend))
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            why = f"{server} or its proxy is not an address that can be asked"
            mend = "Write it as https://host:port"
            return ApiRefusedError(what, message=_with_mend(why, mend))
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            why = f"the proxy before {server} does not let us through ({_kind(raised)})"
            mend = "Check proxy-url in the kubeconfig and HTTPS_PROXY, NO_PROXY in the environment"
        case aiohttp.ClientConnectorDNSError():
            why = f"the name in {server} is not known here"
            mend = "Check the server's address and this machine's DNS"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            why = f"no TLS connection to {server} came about ({_kind(raised)})"
            mend = "Check that the address speaks TLS and that client certificate and key fit"
        case asyncio.TimeoutError():
            why = f"{server} did not answer in time"
            mend = "Check that it can be reached from here"
        case aiohttp.ClientConnectorError():
            why = f"{server} cannot be reached ({raised.os_error.strerror or _kind(raised)})"
            mend = "Check that the cluster runs and that this machine can reach it"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            why, mend = f"{server} cut the connection before it had answered", None
        case _:
            why, mend = f"{server} gave no answer ({_kind(raised)})", None
    return ApiUnavailableError(what, message=_with_mend(why, mend))


def retry_after_seconds(header: str, now: datetime) -> float | None:
    """Read a `Retry-After` header, given in seconds or as a date.

    Returns:
        Seconds from `now`, between 0 and a minute; None for anything else.

    Source:
        https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), LONGEST_RETRY_AFTER_SECONDS))
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return min(max((when - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER_SECONDS)


def brief(text: str) -> str:
    """Return `text` without dumped objects, and cut where it is long."""
    text = _DUMPED_VALUE.sub(r"\1{…}", text)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}… ({len(text)} characters)"


def _with_mend(message: str, mend: str | None) -> str:
    return f"{message.rstrip('.')}. {mend}." if mend else message


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def _kind(raised: BaseException) -> str:
    # The class alone: an exception's text may hold a URL with a password in it.
    return type(raised).__name__


def _certificate_trouble(raised: BaseException) -> str:
    cause = getattr(raised, "certificate_error", raised)
    return getattr(cause, "verify_message", "") or _kind(cause)
