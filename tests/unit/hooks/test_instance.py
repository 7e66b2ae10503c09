"""Two Airflows that share a cluster need two names."""

from __future__ import annotations

import logging

import pytest

from airflow_batchjob.hooks.instance import chosen_instance, instance_name, warn_of_default_instance

CASES = {
    "a name that was given": ("blue", "https://airflow.example.com", "blue"),
    "the API's base URL": ("", "https://airflow.example.com/", "https://airflow.example.com"),
    "a base URL that every Airflow can have": ("", "http://localhost:8080", "default"),
    "an address of this machine": ("", "http://127.0.0.1:8080/", "default"),
    "an address of this machine, version 6": ("", "http://[::1]:8080/", "default"),
    "no address in particular": ("", "http://0.0.0.0:8080/", "default"),
    "nothing": ("", "", "default"),
}


@pytest.mark.parametrize(("named", "base_url", "want"), CASES.values(), ids=CASES.keys())
def test_chooses_a_name(named, base_url, want):
    assert chosen_instance(named, base_url) == want


def test_the_setting_is_read_when_used(monkeypatch):
    monkeypatch.setenv("AIRFLOW__BATCHJOB__INSTANCE", "blue")

    assert instance_name() == "blue"


def test_warns_once_where_two_airflows_could_be_taken_for_one(caplog):
    caplog.set_level(logging.WARNING)

    warn_of_default_instance("default", "https://127.0.0.1:6443")
    warn_of_default_instance("blue", "https://one.example.com")
    assert not caplog.records

    warn_of_default_instance("default", "https://one.example.com")
    warn_of_default_instance("default", "https://one.example.com")
    assert [record.getMessage().count("[batchjob] instance") for record in caplog.records] == [2]
