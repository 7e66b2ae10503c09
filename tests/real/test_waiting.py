"""What keeps a pod from starting is said while it waits."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from airflow_batchjob.supervisor.pace import DEFAULT_PACE
from airflow_batchjob.supervisor.supervise import supervise
from tests.cluster.target import Target
from tests.contract.asking import Asker
from tests.retries.trying import LOG, Bench, request

MISSING = {
    "volumes": [{"name": "keys", "secret": {"secretName": "nowhere"}}],
    "containers": [{"name": "main", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}],
}
PACE = replace(DEFAULT_PACE, pods_seconds=1, events_seconds=1)


async def test_a_volume_that_is_not_there_is_said(
    api: Asker, cluster: Target, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(api=api, kubeconfig=cluster.kubeconfig)
    order = await bench.order(request("true", completions=1, pod=MISSING))
    async with bench.client() as client:
        waiting = asyncio.ensure_future(supervise(client, order, log=LOG, pace=PACE))
        try:
            for _ in range(300):
                if 'secret "nowhere" not found' in caplog.text:
                    return
                await asyncio.sleep(0.2)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            api.ask("DELETE", api.jobs(order.job.name), {"propagationPolicy": "Background"})
    pytest.fail(f"nothing was said of the secret: {caplog.text}")
