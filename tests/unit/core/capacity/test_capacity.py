"""What may be asked for, and what a cluster calls its machines."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from airflow_batchjob import OnDemand, SpotPolicy
from airflow_batchjob.core.capacity.capacity import (
    Capacity,
    Profiles,
    capacity_problems,
    choice_of,
    read_choice,
)
from airflow_batchjob.core.capacity.profiles import PRESETS, read_profiles
from airflow_batchjob.core.errors import Problem, SpecError

CHOICES: dict[str, tuple[Any, Any]] = {
    "spot alone never falls back": ("spot", SpotPolicy(fallback=False)),
    "on_demand is not exclusive": ("on_demand", OnDemand(exclusive=False)),
    "a policy is itself": (SpotPolicy(max_losses_per_index=1), SpotPolicy(max_losses_per_index=1)),
    "OnDemand is exclusive unless said otherwise": (OnDemand(), OnDemand(exclusive=True)),
}


@pytest.mark.parametrize(("given", "want"), CHOICES.values(), ids=CHOICES.keys())
def test_a_choice_is_read(given: Any, want: Any) -> None:
    assert choice_of(given) == want


TEXTS = {
    "a name": ("spot", SpotPolicy(fallback=False)),
    "a name with settings is the policy": ("spot,max_losses_per_index=1", SpotPolicy(max_losses_per_index=1)),
    "truth and percentages": (
        "spot, fallback=false, max_loss_rate=20%", SpotPolicy(fallback=False, max_loss_rate="20%"),
    ),
    "no limit": ("spot,max_losses_per_index=none", SpotPolicy(max_losses_per_index=None)),
    "on demand": ("on_demand,priority_class=high", OnDemand(priority_class="high")),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), TEXTS.values(), ids=TEXTS.keys())
def test_the_command_line_says_the_same(text: str, want: Any) -> None:
    assert read_choice(text) == want


@pytest.mark.parametrize("text", ["cheap", "cheap,fallback=true", "spot,losses=3", "spot,fallback"])
def test_the_command_line_names_what_it_does_not_know(text: str) -> None:
    assert isinstance(read_choice(text), Problem)


WRONG = {
    "a name nobody knows": ("cheap", "known: on_demand, spot"),
    "not a choice at all": (3, "no capacity"),
    "a negative limit": (SpotPolicy(max_losses_per_index=-1), "below 0"),
    "more than all": (SpotPolicy(max_loss_rate=1.5), "from 0 to 1"),
    "no number": (SpotPolicy(max_loss_rate="many"), "from 0 to 1"),
    "a flag that is a word": (SpotPolicy(fallback="yes"), "True or False"),
    "a negative number of pods": (SpotPolicy(fallback_max_running=-2), "below 0"),
    "an empty class": (OnDemand(priority_class=" "), "PriorityClass"),
}


@pytest.mark.parametrize(("given", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_makes_no_sense_is_named(given: Any, words: str) -> None:
    (problem,) = capacity_problems(given)

    assert words in str(problem)
    assert problem.field.startswith("capacity")


def test_a_rate_is_exact() -> None:
    assert (
        SpotPolicy(max_loss_rate="20%").loss_rate == SpotPolicy(max_loss_rate=0.2).loss_rate == Fraction(1, 5)
    )


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_tells_spot_from_on_demand(name: str) -> None:
    found = read_profiles(name)

    assert found.spot is not None
    assert found.on_demand is not None
    assert found.spot != found.on_demand
    assert found.signs.is_spot(found.spot.node_selector)


def test_a_profile_given_takes_the_place_of_the_presets() -> None:
    found = read_profiles(
        {"preset": "eks", "on_demand": {"node_selector": {"pool": 7}, "priority_class": "high"}}
    )

    assert found.on_demand.node_selector == {"pool": "7"}
    assert found.on_demand.priority_class == "high"
    assert found.spot == PRESETS["eks"].spot


def test_a_label_of_ones_own_is_a_preset() -> None:
    found = read_profiles({"label": "example.com/capacity"})

    assert found.spot.node_selector == {"example.com/capacity": "spot"}
    assert found.signs.is_spot({"example.com/capacity": "spot"})


MALFORMED = {
    "an unknown preset": ("gce", "known: aks, eks, gke, karpenter, label"),
    "an unknown field": ({"spots": {}}, "no such field"),
    "an unknown field of a profile": ({"spot": {"selector": {}}}, "no such field"),
    "a profile that is a word": ({"spot": "cheap"}, "not a mapping"),
    "tolerations as a mapping": ({"spot": {"tolerations": {}}}, "not a list"),
    "a toleration that is a word": ({"spot": {"tolerations": ["spot"]}}, "not a mapping"),
    "a label beside another preset": ({"preset": "gke", "label": "x"}, "only the preset label"),
    "taints as text": ({"reclaim_taints": "a"}, "not a list"),
    "a list": ([], "neither the name of a preset"),
}


@pytest.mark.parametrize(("given", "words"), MALFORMED.values(), ids=MALFORMED.keys())
def test_profiles_that_make_no_sense_are_named(given: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_profiles(given)


def test_what_a_choice_needs_and_the_cluster_lacks_is_named_with_what_there_is() -> None:
    profiles = read_profiles({"spot": {"node_selector": {"a": "b"}}}, "the connection's extra")
    (problem,) = Capacity(choice=SpotPolicy(), profiles=profiles).missing()

    assert problem.value == "on_demand"
    assert "known profiles (the connection's extra): spot" in problem.why
    assert not list(Capacity(choice=SpotPolicy(fallback=False), profiles=profiles).missing())


def test_nothing_is_guessed() -> None:
    assert (read_profiles(None).spot, read_profiles(None).on_demand) == (None, None)
    assert len(list(Capacity(choice=SpotPolicy(), profiles=Profiles()).missing())) == 2
