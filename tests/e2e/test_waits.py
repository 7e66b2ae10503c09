"""What takes minutes, and ran beside the other scenarios."""

from __future__ import annotations

import pytest

from tests.e2e.ahead import OUTAGE_SECONDS

LONGEST_SECONDS = OUTAGE_SECONDS + 150.0


@pytest.mark.ahead("outage")
def test_an_outage_of_the_clusters_api_changes_no_verdict(ahead):
    ahead.result(LONGEST_SECONDS)


@pytest.mark.essential
@pytest.mark.ahead("timeout while deferred")
def test_the_execution_timeout_stops_a_deferred_job_and_fails_the_task(ahead):
    ahead.result(LONGEST_SECONDS)


@pytest.mark.essential
@pytest.mark.ahead("timeout in the worker")
def test_the_execution_timeout_stops_a_job_in_the_worker_and_fails_the_task(ahead):
    ahead.result(LONGEST_SECONDS)
