"""Reading bodies by what Kubernetes' types have, from JSON and from protocol buffers."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.local.api.protobuf import BadProtobuf, read_protobuf
from airflow_batchjob.local.api.schema import WrongType, decode, parse_json

READ: dict[str, tuple[Any, Any]] = {
    "nulls are not there": ({"spec": {"parallelism": None}}, {"spec": {}}),
    "empty maps and lists are not there": (
        {"metadata": {"labels": {}, "finalizers": []}},
        {"metadata": {}},
    ),
    "an empty object of a type of its own stays": ({"status": {}}, {"status": {}}),
    "a zero that can be absent in no other way is not there": ({"status": {"active": 0}}, {"status": {}}),
    "a zero that means something stays": ({"spec": {"parallelism": 0}}, {"spec": {"parallelism": 0}}),
    "an empty text that means something stays": (
        {"status": {"failedIndexes": "", "completedIndexes": ""}},
        {"status": {"failedIndexes": ""}},
    ),
    "a time in another zone": (
        {"status": {"startTime": "2024-01-01T02:00:00+02:00"}},
        {"status": {"startTime": "2024-01-01T00:00:00Z"}},
    ),
}


@pytest.mark.parametrize(("sent", "want"), READ.values(), ids=READ.keys())
def test_what_is_kept(sent: Any, want: Any) -> None:
    assert decode("Job", sent).object == want


WRONG = {
    "text for a number": {"spec": {"parallelism": "1"}},
    "truth for a number": {"spec": {"parallelism": True}},
    "a number that is too large": {"spec": {"parallelism": 2**31}},
    "a fraction": {"spec": {"parallelism": 1.5}},
    "a number for text": {"metadata": {"labels": {"a": 1}}},
    "an object for a list": {"metadata": {"finalizers": {}}},
    "a time that is none": {"status": {"startTime": "yesterday"}},
    "a time without a zone": {"status": {"startTime": "2024-01-01T00:00:00"}},
    "no object at all": [],
}


@pytest.mark.parametrize("sent", WRONG.values(), ids=WRONG.keys())
def test_what_is_of_the_wrong_type(sent: Any) -> None:
    with pytest.raises(WrongType):
        decode("Job", sent)


def test_every_unknown_and_repeated_field_is_named() -> None:
    sent = parse_json(
        '{"spec": {"foo": 1, "template": {"spec": {"a": 1, "containers": [{"b": 2}]}}}, "x": 1, "x": 2}'
    )

    assert set(decode("Job", sent).unknown) == {
        'unknown field "spec.foo"',
        'unknown field "spec.template.spec.a"',
        'unknown field "spec.template.spec.containers[0].b"',
        'unknown field "x"',
        'duplicate field "x"',
    }


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message; all lengths here fit one byte."""
    return (
        bytes([number << 3, value])
        if isinstance(value, int)
        else bytes([number << 3 | 2, len(value)]) + value
    )


def enveloped(message: bytes) -> bytes:
    head = field(1, b"batch/v1") + field(2, b"Job")
    return b"k8s\x00" + field(1, head) + field(2, message)


def test_protocol_buffers_are_read_as_the_same_tree() -> None:
    labels = field(11, field(1, b"a") + field(2, b"b"))
    variable = field(1, b"A") + field(3, field(3, field(1, field(1, b"cm")) + field(2, b"key")))
    limits = field(1, field(1, b"cpu") + field(2, field(1, b"500m")))
    container = field(1, b"main") + field(3, b"true") + field(7, variable) + field(8, limits)
    volume = field(1, b"v") + field(2, field(2, b""))
    template = field(2, field(1, volume) + field(2, container) + field(3, b"Never"))
    spec = field(1, 2) + field(6, template) + field(10, 1)

    tree = read_protobuf(enveloped(field(1, field(1, b"j") + labels) + field(2, spec)), "Job")

    assert decode("Job", tree).object == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"a": "b"}},
        "spec": {
            "parallelism": 2,
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "main",
                            "command": ["true"],
                            "env": [
                                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "key"}}}
                            ],
                            "resources": {"limits": {"cpu": "500m"}},
                        }
                    ],
                }
            },
        },
    }


BROKEN = {
    "no envelope": b"{}",
    "cut": enveloped(field(1, b"j"))[:-1],
    "a field of no number": enveloped(field(9, b"x")),
    "a number where text stands": enveloped(field(1, field(1, 7))),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_protocol_buffers_that_are_broken(data: bytes) -> None:
    with pytest.raises(BadProtobuf):
        read_protobuf(data, "Job")
