"""What capacity does to a Job: placement, losses that spend no budget, and the plan for the way out of spot.

Where no capacity is asked for, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from airflow_batchjob.core.capacity.capacity import (
    ON_DEMAND,
    SPOT,
    Capacity,
    Given,
    Kind,
    OnDemand,
    Profiles,
    Signs,
    SpotPolicy,
    choice_of,
)
from airflow_batchjob.core.capacity.marks import CAPACITY, FELL_BACK, FellBack, Plan, Why
from airflow_batchjob.core.capacity.placement import (
    CAPACITY_LABEL,
    FIELDS,
    fits_in_place,
    placed,
    selector_conflicts,
)
from airflow_batchjob.core.capacity.profiles import KNOWN_SIGNS
from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.identity.marks import QUEUE_LABEL
from airflow_batchjob.core.request.draft import NON_INDEXED, Draft
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.rules.pod_rules import POD_PATH

DEFAULT_PENDING_SECONDS: Final = 900
"""Without a spot machine for so long, a Job that may falls back."""

IGNORE_LOSSES: Final[Mapping[str, Any]] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def is_spot(given: Given) -> bool:
    """Tell whether spot machines are asked for."""
    return given is not None and isinstance(choice_of(given), SpotPolicy)


def falls_back(given: Given) -> bool:
    """Tell whether on-demand machines are the way out."""
    choice = None if given is None else choice_of(given)
    return isinstance(choice, SpotPolicy) and choice.fallback


def set_capacity(draft: Draft, asked: JobSpec) -> None:
    """Put what the capacity asks for into `draft`, whose pod and limits are in place."""
    given = asked.capacity
    choice = None if given is None else choice_of(given)
    if choice is None or isinstance(choice, Problem):
        return  # nothing is asked for, or it is named already
    capacity = given if isinstance(given, Capacity) else Capacity(choice=choice, profiles=Profiles())
    if not isinstance(given, Capacity):
        draft.problems.extend(capacity.missing())
    if isinstance(choice, SpotPolicy):
        draft.problems.extend(_spot_problems(draft, given))
        if draft.mode != NON_INDEXED and not draft.restarts_in_place:
            _ignore_losses(draft)
    queue = _queue_of(draft)
    if queue:
        draft.notes.append(
            f"the queue {queue!r} decides where the pods go: its flavors, in their order, are the way out of "
            "spot; capacity= places nothing"
        )
        return
    _place(draft, capacity)


def on_demand_from_the_start(manifest: Mapping[str, Any], why: Why, words: str, at: float) -> dict[str, Any]:
    """Return a Job that its plan has moved to on-demand; one without such a plan as it is."""
    plan = plan_of(manifest)
    if plan is None or not plan.fallback or plan.now is Kind.ON_DEMAND:
        return dict(manifest)
    moved = deepcopy(dict(manifest))
    template = moved["spec"]["template"]
    template["spec"] = with_placement(template["spec"], plan.on_demand)
    template.setdefault("metadata", {}).setdefault("labels", {})[CAPACITY_LABEL] = Kind.ON_DEMAND.value
    moved["metadata"]["annotations"] |= {
        CAPACITY: plan.moved().to_text(),
        FELL_BACK: FellBack(why=why, words=words, at=at).to_text(),
    }
    return moved


def plan_of(manifest: Mapping[str, Any]) -> Plan | None:
    """Return the plan that `set_capacity` wrote; None where there is none."""
    text = ((manifest.get("metadata") or {}).get("annotations") or {}).get(CAPACITY)
    return None if not text else Plan.from_text(text)


def with_placement(pod: Mapping[str, Any], placement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod spec with another placement."""
    return {**{key: value for key, value in pod.items() if key not in FIELDS}, **placement}


def _spot_problems(draft: Draft, given: Given) -> Iterator[Problem]:
    shown = given.choice if isinstance(given, Capacity) else given
    if draft.mode == NON_INDEXED:
        why = (
            "it needs indexes, and the manifest's completionMode is NonIndexed: losses are counted by index, "
            "and only indexes can go on elsewhere"
        )
        yield Problem(
            "capacity", shown, why, "Write completionMode: Indexed in the manifest, or give completions"
        )
    if draft.restarts_in_place:
        why = (
            "with restartPolicy OnFailure containers restart in place, and Kubernetes refuses the rule that "
            "keeps a lost machine from spending a budget"
        )
        yield Problem("capacity", shown, why, "Write restartPolicy: Never")


def _ignore_losses(draft: Draft) -> None:
    policy = draft.spec.get("podFailurePolicy") or {}
    rules = list(policy.get("rules") or [])
    draft.spec["podFailurePolicy"] = {**policy, "rules": [deepcopy(dict(IGNORE_LOSSES)), *rules]}
    # The others have moved by one; their authors know them by their old places.
    path = "spec.podFailurePolicy.rules"
    known = {
        f"{path}[{at + 1}]": draft.names.pop(f"{path}[{at}]", f"{path}[{at}]") for at in range(len(rules))
    }
    draft.names |= {f"{path}[0]": "capacity", **known}


def _queue_of(draft: Draft) -> str:
    return str((draft.metadata.get("labels") or {}).get(QUEUE_LABEL) or "")


def _place(draft: Draft, capacity: Capacity) -> None:
    kind = capacity.kind
    profile = capacity.profiles.spot if kind is Kind.SPOT else capacity.profiles.on_demand
    for label, (own, wanted) in selector_conflicts(draft.pod, profile).items():
        why = f"the capacity's profile wants {wanted!r} there, and a node has one value"
        draft.refuse(f"{POD_PATH}.nodeSelector[{label!r}]", own, why, "Leave one of them out")
    before: dict[str, Any] = {field: draft.pod[field] for field in FIELDS if field in draft.pod}
    here = placed(draft.pod, capacity, kind)
    draft.template["spec"] = with_placement(draft.pod, here)
    labels = draft.template_metadata.get("labels") or {}
    draft.template_metadata["labels"] = {**labels, CAPACITY_LABEL: kind.value}
    _note_placement(draft, capacity, before)
    if isinstance(capacity.choice, SpotPolicy):
        there = placed(before, capacity, Kind.ON_DEMAND) if capacity.falls_back else {}
        plan = _plan(capacity.choice, capacity.profiles.signs, there, in_place=fits_in_place(here, there))
        draft.metadata["annotations"] = {
            **(draft.metadata.get("annotations") or {}),
            CAPACITY: plan.to_text(),
        }
        if plan.fallback:
            draft.notes.append(_way_out(plan, here))


def _plan(policy: SpotPolicy, signs: Signs, there: dict[str, Any], *, in_place: bool) -> Plan:
    try:
        rate = policy.loss_rate
    except ValueError:
        rate = None  # named already
    return Plan(
        now=Kind.SPOT,
        fallback=policy.fallback,
        max_losses_per_index=policy.max_losses_per_index,
        max_loss_rate=None if rate is None else str(rate),
        last_try_on_demand=policy.last_try_on_demand,
        max_running=policy.fallback_max_running,
        on_demand=there,
        in_place=in_place,
        spot_labels={
            label: sorted(values)
            for label, values in signs.spot_labels.items()
            if KNOWN_SIGNS.spot_labels.get(label) != values
        },
        reclaim_taints=sorted(signs.reclaim_taints - KNOWN_SIGNS.reclaim_taints),
    )


def _note_placement(draft: Draft, capacity: Capacity, before: Mapping[str, Any]) -> None:
    choice = capacity.choice
    where = SPOT if capacity.kind is Kind.SPOT else ON_DEMAND
    origin = f" ({capacity.profiles.origin})" if capacity.profiles.origin else ""
    draft.notes.append(f"pods go to {where} machines, by the cluster's profile{origin}")
    own, there = before.get("priorityClassName"), draft.pod.get("priorityClassName")
    if own and own != there:
        draft.notes.append(f"the pod's priorityClassName ({own}) gives way to the capacity's ({there})")
    if isinstance(choice, OnDemand) and choice.exclusive and not there:
        draft.notes.append(
            "no priority class is named for exclusive machines: pods wait for one that no pod of ours is on, "
            "and push nobody off"
        )


def _way_out(plan: Plan, here: Mapping[str, Any]) -> str:
    kills = (
        "when no pod is running (fallback_max_running=0), so it kills none"
        if plan.max_running == 0
        else f"when at most {plan.max_running} pods are running (fallback_max_running), which it kills"
    )
    if plan.in_place:
        return f"the way out of spot: the same Job is suspended, moved to on-demand and resumed, {kills}"
    differing = [
        name
        for name, key in (("priorityClassName", "priorityClassName"), ("pod affinity", "affinity"))
        if here.get(key) != plan.on_demand.get(key)
    ]
    return (
        f"the way out of spot: a follow-up Job on demand runs what is left, since {' and '.join(differing)} "
        f"of a suspended Job cannot change; this one is suspended {kills}"
    )
