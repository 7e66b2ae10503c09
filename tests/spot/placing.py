"""Requests for spot machines that are there, or never come, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_batchjob import SpotPolicy
from airflow_batchjob.core.capacity.capacity import Capacity
from airflow_batchjob.core.capacity.profiles import read_profiles
from airflow_batchjob.supervisor.request import Request
from tests.contract.asking import Object
from tests.contract.living import index_of
from tests.retries.trying import Bench, request

LABEL = "airflow-batchjob/capacity"
NEVER = {"spot": {"node_selector": {LABEL: "spot-that-never-comes"}}}
"""A profile that no node fits: a stock-out as long as it lasts."""
CLASS = {"on_demand": {"node_selector": {LABEL: "on-demand"}, "priority_class": "system-node-critical"}}
"""A profile with a priority class, which no suspended Job lets one change."""

SHOWN = "echo ran on $NODE"
NODE = {"NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}}


def spot(
    script: str = SHOWN,
    profiles: Mapping[str, Any] | None = None,
    policy: SpotPolicy | None = None,
    **fields: Any,
) -> Request:
    """Return a request for spot machines; by default it falls back and may kill whatever runs then."""
    policy = policy or SpotPolicy(fallback_max_running=100)
    found = read_profiles({"preset": "label", **(profiles or {})})
    return request(script, capacity=Capacity(choice=policy, profiles=found), **{"env": NODE} | fields)


def out_of_stock(profiles: Mapping[str, Any] | None = None, **fields: Any) -> Request:
    """Return a request whose spot machines never come."""
    return spot(profiles={**NEVER, **(profiles or {})}, **{"pending_seconds": 1, "completions": 3} | fields)


def kinds(bench: Bench, generation: int = -1) -> dict[int, str]:
    """Return the capacity that each index succeeded on."""
    name = bench.job(generation)["metadata"]["name"]
    return {
        index: pod["metadata"]["labels"][LABEL]
        for pod in bench.pods(name)
        if pod["status"]["phase"] == "Succeeded" and (index := index_of(pod)) is not None
    }


def mark(job: Object, key: str) -> dict[str, Any]:
    """Return what an annotation of ours says; {} where there is none."""
    found: dict[str, Any] = json.loads(job["metadata"]["annotations"].get(f"airflow-batchjob/{key}", "{}"))
    return found
