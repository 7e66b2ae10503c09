"""Fake nodes: thousands of pods without thousands of processes, on a real control plane."""

from __future__ import annotations

import pytest

from tests.cluster.target import RealCluster, Target
from tests.contract.asking import Asker, indexed
from tests.contract.living import SUCCEEDS, ended, runs

ON_FAKES = {"nodeSelector": {"type": "kwok"}, "tolerations": [{"key": "kwok", "operator": "Exists"}]}


def test_fake_nodes_take_a_jobs_pods_and_they_succeed(api: Asker, cluster: Target) -> None:
    if not isinstance(cluster, RealCluster):
        pytest.skip("fake nodes belong to clusters that this run has started")
    names = cluster.cluster.fake_nodes(20)
    try:
        api.have_job(indexed(completions=200, parallelism=100, pod=runs(*SUCCEEDS, **ON_FAKES)))

        job = ended(api)

        pods = api.ask("GET", api.core("pods")).body["items"]
        assert job["status"]["completedIndexes"] == "0-199"
        assert len(pods) == 200
        assert {pod["spec"]["nodeName"] for pod in pods} <= set(names)
    finally:
        cluster.cluster.kubectl("delete", "node", *names, "--wait=false")
