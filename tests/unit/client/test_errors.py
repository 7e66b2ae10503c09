"""Every answer of the API, and every way of giving none, as an error of ours."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import datetime, timezone

import aiohttp
import pytest

from airflow_batchjob.client.errors import (
    LONGEST_MESSAGE,
    LONGEST_RETRY_AFTER_SECONDS,
    error_for,
    error_for_exception,
    retry_after_seconds,
)
from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiError,
    ApiRefusedError,
    ApiUnavailableError,
    ExpiredError,
    NotFoundError,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=timezone.utc)


def status(code: int, reason: str = "", message: str = "no", kind: str = "jobs", **details: int) -> bytes:
    body = {
        "kind": "Status", "code": code, "reason": reason, "message": message,
        "details": {"kind": kind, **details},
    }  # fmt: skip
    return json.dumps(body).encode()


ANSWERS = {
    "no such Job": (404, status(404, "NotFound"), NotFoundError),
    "no such namespace": (404, status(404, "NotFound", kind="namespaces"), ApiRefusedError),
    "no such path: not a Kubernetes API": (404, b"404 page not found", ApiRefusedError),
    "a resource the server does not serve": (404, status(404, "NotFound", kind=""), ApiRefusedError),
    "who are you": (401, status(401, "Unauthorized"), ApiRefusedError),
    "you may not": (403, status(403, "Forbidden"), ApiRefusedError),
    "an object that makes no sense": (400, status(400, "BadRequest"), ApiRefusedError),
    "an invalid object, or a failed test of a patch": (422, status(422, "Invalid"), ApiRefusedError),
    "the name is taken": (409, status(409, "AlreadyExists"), ApiConflictError),
    "a quota was changing": (409, status(409, "Conflict"), ApiConflictError),
    "the resource version is too old": (410, status(410, "Expired"), ExpiredError),
    "too many requests": (429, status(429, "TooManyRequests"), ApiUnavailableError),
    "a resource version of the future": (504, status(504, "Timeout"), ApiUnavailableError),
    "a proxy's page": (502, b"<html>Bad Gateway</html>", ApiUnavailableError),
    "a redirect, as a login page makes": (302, b"", ApiRefusedError),
    "a code that nobody knows": (599, b"", ApiUnavailableError),
}


@pytest.mark.parametrize(("code", "body", "want"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_told_by_its_status(code: int, body: bytes, want: type[ApiError]) -> None:
    error = error_for("get Job ml/embed", code, body, {})

    assert type(error) is want
    assert error.code == code
    assert str(error).startswith("get Job ml/embed: ")


def test_the_reason_is_kubernetes_own_word() -> None:
    error = error_for("create Job ml/embed", 409, status(409, "AlreadyExists", "it is there"), {})

    assert (error.reason, error.message) == ("AlreadyExists", "it is there")


def test_a_refusal_names_the_mend() -> None:
    error = error_for("get Job ml/embed", 403, status(403, "Forbidden", 'User "x" cannot get'), {})

    assert 'User "x" cannot get. Give the account this right' in str(error)


NO_STATUS = {
    "a page": b"<html>token=hunter2</html>",
    "JSON of someone else": b'{"error": "hunter2"}',
    "JSON that is no object": b'["hunter2"]',
    "not even text": b"\xff\xfehunter2",
    "a Status of another kind": b'{"kind": "Secret", "message": "hunter2"}',
    "a Status whose fields have other types": b'{"kind": "Status", "message": ["hunter2"]}',
}


@pytest.mark.parametrize("body", NO_STATUS.values(), ids=NO_STATUS.keys())
def test_a_body_that_is_no_status_is_dropped(body: bytes) -> None:
    assert "hunter2" not in str(error_for("get Job ml/embed", 500, body, {}))


DUMPS = {
    "Go": 'core.PodTemplateSpec{Env:[]core.EnvVar{core.EnvVar{Name:"P", Value:"hunter2"}}}',
    "a pointer in Go": '&core.PodTemplateSpec{Env:"hunter2"}',
    "JSON": '{"env":[{"name":"P","value":"hunter2"}]}',
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS.keys())
def test_an_object_in_a_message_is_left_out(dump: str) -> None:
    message = f"spec.template: Invalid value: {dump}: field is immutable"

    error = error_for("patch Job ml/embed", 422, status(422, "Invalid", message), {})

    assert "spec.template: Invalid value: {…}: field is immutable" in str(error)
    assert "hunter2" not in str(error)


def test_a_long_message_is_cut_and_says_so() -> None:
    error = error_for("get Job ml/embed", 500, status(500, message="x" * 5000), {})

    assert len(error.message) < LONGEST_MESSAGE + 50
    assert error.message.endswith("(5000 characters)")


RETRY_AFTER = {
    "seconds": ("7", 7.0),
    "seconds with spaces": (" 7 ", 7.0),
    "none": ("0", 0.0),
    "too long": ("86400", LONGEST_RETRY_AFTER_SECONDS),
    "absurdly long": ("9" * 400, LONGEST_RETRY_AFTER_SECONDS),
    "a date": ("Sun, 01 Mar 2026 12:00:09 GMT", 9.0),
    "a date in the past": ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
    "a date far away": ("Sun, 01 Mar 2027 12:00:00 GMT", LONGEST_RETRY_AFTER_SECONDS),
    "a date without a zone": ("Sun, 01 Mar 2026 12:00:09", 9.0),
    "negative": ("-3", None),
    "a fraction": ("1.5", None),
    "garbage": ("soon", None),
    "nothing": ("", None),
    "digits of another script": ("٧", None),
}


@pytest.mark.parametrize(("header", "want"), RETRY_AFTER.values(), ids=RETRY_AFTER.keys())
def test_retry_after(header: str, want: float | None) -> None:
    assert retry_after_seconds(header, NOW) == want


def test_retry_after_is_read_from_the_header_before_the_details() -> None:
    body = status(429, retryAfterSeconds=30)

    error = error_for("list jobs", 429, body, {"Retry-After": "2"}, now=NOW)

    assert isinstance(error, ApiUnavailableError)
    assert error.retry_after_seconds == 2.0


def test_retry_after_is_read_from_the_details_without_a_header() -> None:
    error = error_for("list jobs", 429, status(429, retryAfterSeconds=30), {})

    assert isinstance(error, ApiUnavailableError)
    assert error.retry_after_seconds == 30.0


SILENCES = {
    "no answer in time": (asyncio.TimeoutError(), ApiUnavailableError, "did not answer in time"),
    "a reset": (ConnectionResetError(104, "reset"), ApiUnavailableError, "gave no answer"),
    "a cut in the middle": (aiohttp.ClientPayloadError("x"), ApiUnavailableError, "cut the connection"),
    "a closed connection": (aiohttp.ServerDisconnectedError(), ApiUnavailableError, "cut the connection"),
    "another server's certificate": (
        ssl.SSLCertVerificationError(1, "certificate verify failed"), ApiRefusedError, "not trusted",
    ),
    "no TLS at all": (ssl.SSLError(1, "wrong version number"), ApiUnavailableError, "no TLS connection"),
    "no address": (aiohttp.InvalidURL("http://u:hunter2@"), ApiRefusedError, "https://host:port"),
    "anything else": (RuntimeError("hunter2"), ApiUnavailableError, "gave no answer (RuntimeError)"),
}  # fmt: skip


@pytest.mark.parametrize(("raised", "want", "says"), SILENCES.values(), ids=SILENCES.keys())
def test_silence_names_the_server(raised: Exception, want: type[ApiError], says: str) -> None:
    error = error_for_exception("get Job ml/embed", "https://10.0.0.1:6443", raised)

    assert type(error) is want
    assert says in str(error)
    assert "https://10.0.0.1:6443" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize("kind", [ApiError, *ApiError.__subclasses__()])
def test_no_error_of_ours_is_another_librarys(kind: type[ApiError]) -> None:
    assert all(base.__module__.startswith(("airflow_batchjob", "builtins")) for base in kind.__mro__)
