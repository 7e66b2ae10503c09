"""What crosses between worker and triggerer is small, plain, and comes back as it went."""

from __future__ import annotations

import importlib
import json
from typing import Any

import msgspec
import pytest
from airflow.serialization.serialized_objects import BaseSerialization
from airflow.triggers.base import BaseTrigger

from airflow_batchjob import ApiUnavailableError
from airflow_batchjob.compat import AirflowFailException
from airflow_batchjob.core.deciding.report import for_event
from airflow_batchjob.core.event import Cause, Order, Outcome, Verdict
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.triggers.batchjob import BatchJobTrigger, Report
from airflow_batchjob.triggers.sensor import BatchJobSensorTrigger

REF = JobRef("jobs", "embed-3f2a", "0b9f3c1e-1111-2222-3333-444455556666")
ORDER = Order(
    job=REF,
    identity="0123456789abcdef",
    generation=0,
    holder="01a22e0a-8471-72ae-8005-6e27c146545c/1",
    completions=100_000,
    indexed=True,
)


def through_airflow(value: Any) -> Any:
    return BaseSerialization.deserialize(json.loads(json.dumps(BaseSerialization.serialize(value))))


TRIGGERS = {
    "the operator's": BatchJobTrigger(kubernetes_conn_id="gpu", order=ORDER.to_json_types()),
    "the sensor's": BatchJobSensorTrigger(
        kubernetes_conn_id="gpu",
        wait={"target": {"identity": "0123456789abcdef"}, "until": "50%", "instance": "default"},
    ),
}


@pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS.keys())
def test_a_trigger_is_rebuilt_from_what_it_serializes(trigger):
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")

    again = getattr(importlib.import_module(module), name)(**through_airflow(arguments))

    assert again.serialize() == trigger.serialize()
    assert isinstance(again, BaseTrigger)
    assert len(json.dumps(arguments)) < 2_000


def verdict(**more: Any) -> Verdict:
    return Verdict(outcome=Outcome.NOT_MET, cause=Cause.TOO_FEW, job=REF, generation=0, **more)


def test_an_event_is_small_at_any_size_of_job():
    every_other = str(IndexSet.of(range(0, 100_000, 2)))
    lists = dict.fromkeys(("succeeded_indexes", "failed_indexes", "not_run_indexes"), every_other)

    payload = Report(order=ORDER, verdict=for_event(verdict(**lists))).to_payload()

    assert len(json.dumps(payload)) < 8_000
    assert Report.from_payload(json.loads(json.dumps(payload))).verdict.indexes_cut


@pytest.mark.parametrize(("outcome", "want"), [(Outcome.NOT_MET, True), (Outcome.MET, False)])
def test_what_a_retry_goes_on_from_is_in_the_event(outcome: Outcome, want: bool):
    every_other = str(IndexSet.of(range(0, 16_000, 2)))
    lists = dict.fromkeys(("succeeded_indexes", "failed_indexes", "not_run_indexes"), every_other)

    event = for_event(msgspec.structs.replace(verdict(**lists), outcome=outcome))

    assert (event.succeeded_indexes, event.failed_indexes) == (every_other if want else None, None)
    assert len(json.dumps(event.to_json_types())) < 56_000


def test_a_report_survives_airflows_own_serialization():
    report = Report(order=ORDER, verdict=verdict(succeeded=5, failed_indexes="3,7-9"))

    assert Report.from_payload(through_airflow(report.to_payload())) == report


def test_trouble_in_the_triggerer_can_be_retried_or_not():
    again = Report(order=ORDER, error="ApiUnavailableError: no answer").as_error()
    never = Report(order=ORDER, error="ApiRefusedError: 403 Forbidden", may_retry=False).as_error()

    assert isinstance(again, ApiUnavailableError)
    assert isinstance(never, AirflowFailException)
    assert "403 Forbidden" in str(never)
