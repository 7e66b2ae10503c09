"""The Role that the pages print allows what the client asks for, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from airflow_batchjob.client import requests
from airflow_batchjob.core.rules.rights import RIGHTS, role_yaml

if TYPE_CHECKING:
    from airflow_batchjob.client.requests import Call

ROLE = Path(__file__).parents[2] / "docs" / "role.yaml"

# What the methods of the client protocol send.
CALLS = [
    requests.create_job("ml", {"metadata": {"name": "embed"}}),
    requests.get_job("ml", "embed"),
    requests.patch_job("ml", "embed", []),
    requests.patch_job("ml", "embed", [], subresource="status"),
    requests.delete_job("ml", "embed", "uid"),
    requests.list_page("ml", "jobs", {}),
    requests.list_page("ml", "pods", {}),
    requests.list_page("ml", "events", {}),
    requests.watch("ml", "jobs", "", "1", 60),
    requests.watch("ml", "pods", "", "1", 60),
    requests.pod_log("ml", "embed-0-x", "main", tail_lines=None, limit_bytes=None),
    requests.follow_log("ml", "embed-0-x", "main", since_time=None, idle_seconds=60),
]


def needs(call: Call) -> tuple[str, str]:
    """Return the resource and the verb that Kubernetes' authorizer makes of a request."""
    kind, *rest = call.path.partition("/namespaces/ml/")[2].split("/")
    resource = f"{kind}/{rest[1]}" if rest[1:] else kind
    if call.method != "GET":
        return resource, {"POST": "create", "PATCH": "patch", "DELETE": "delete"}[call.method]
    if rest:
        return resource, "get"
    return resource, "watch" if call.query.get("watch") else "list"


def test_the_role_is_what_the_client_needs() -> None:
    rules = yaml.safe_load(ROLE.read_text())["rules"]
    allowed = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    assert allowed == set(map(needs, CALLS))


def test_the_role_of_the_pages_is_the_one_that_doctor_prints() -> None:
    assert ROLE.read_text() == role_yaml()


def test_every_right_is_given_by_the_role_or_is_of_the_whole_cluster() -> None:
    rules = yaml.safe_load(role_yaml())["rules"]
    given = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    assert {(right.resource, right.verb) for right in RIGHTS if right.in_namespace} == given
