"""What a cluster calls its machines is read from the connection, else from the setting."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.hooks.connection import capacity_profiles

GKE, EKS = {"capacity": "gke"}, {"capacity": "eks"}

PLACES: dict[str, tuple[dict[str, Any], str, str]] = {
    "the connection's extra": ({"batchjob": GKE}, "", "cloud.google.com/gke-spot"),
    "a connection written as a URI": ({"batchjob": json.dumps(GKE)}, "", "cloud.google.com/gke-spot"),
    "the setting": ({}, json.dumps(EKS), "eks.amazonaws.com/capacityType"),
    "the connection before the setting": ({"batchjob": GKE}, json.dumps(EKS), "cloud.google.com/gke-spot"),
}


@pytest.mark.parametrize(("extra", "defaults", "label"), PLACES.values(), ids=PLACES.keys())
def test_profiles_come_from(extra: dict[str, Any], defaults: str, label: str) -> None:
    found = capacity_profiles(extra, defaults)

    assert found.spot is not None
    assert list(found.spot.node_selector) == [label]


def test_nothing_said_is_nothing_known() -> None:
    assert capacity_profiles({}, "").spot is None


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="known: aks, eks, gke, karpenter, label"):
        capacity_profiles({"batchjob": {"capacity": "gce"}}, "")
