"""Pods that were lost: which ones, how often an index was, and what that says about the capacity.

Kubernetes counts the losses that it ignored on the replacements of an index, and starts again after
each suspension; a lost pod itself is seen in a watch, or never.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_batchjob.core.capacity.capacity import Kind, Signs
from airflow_batchjob.core.capacity.placement import CAPACITY_LABEL
from airflow_batchjob.core.reading.endings import Confidence, Ending, Node, classify
from airflow_batchjob.core.reading.pods import Pod, index_of

CUT_OFF_SECONDS = 300.0
"""A pod that still terminates so long after its grace is lost: its node does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One pod that was lost.

    Attributes:
        index: Of the Job.
        pod: Its name.
        node: Where it ran; "" if nowhere.
        ending: What took it away.
        confidence: How sure that is.
        seconds: For how long it had run.
        is_marked: Kubernetes marked it, so that no budget was spent on it.
    """

    index: int
    pod: str
    node: str
    ending: Ending
    confidence: Confidence = Confidence.HIGH
    seconds: float = 0.0
    is_marked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often an index was lost."""

    index: int
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """All that decides whether a Job stays where it is.

    Attributes:
        total: Pods lost in this try.
        worst: The index that was lost most often, not counting evictions by a node's pressure.
        pressed: The index that was evicted most often because its node ran low, if any.
        pressed_words: What ran low, in Kubernetes' words.
        ended: Pods that ended otherwise: succeeded or failed.
        running: Pods that run now; None: none of its pods has been seen so far, running or not.
    """

    total: int = 0
    worst: Count | None = None
    pressed: Count | None = None
    pressed_words: str = ""
    ended: int = 0
    running: int | None = 0


def kind_of(pod: Pod) -> Kind | None:
    """Return the capacity that a pod was sent to; None where none was asked for."""
    try:
        return Kind(pod.metadata.labels.get(CAPACITY_LABEL, ""))
    except ValueError:
        return None


def loss_of(pod: Pod, *, now: float, signs: Signs, node: Node | None = None) -> Loss | None:
    """Return the loss of `pod`; None where it was not lost (so far).

    Args:
        pod: As seen last.
        now: Epoch seconds.
        signs: What tells a spot node, and one that is about to go.
        node: Its node, where that was looked at.
    """
    index = index_of(pod)
    if index is None or pod.status.phase == "Succeeded":
        return None
    cut_off = is_cut_off(pod, now)
    if pod.status.phase != "Failed" and not cut_off:
        return None
    found = classify(pod, node, signs=signs, on_spot=kind_of(pod) is Kind.SPOT)
    ending = Ending.NODE_GONE if cut_off else found.ending
    # Whoever suspends a Job or takes pods away kills them, too.
    taken_away = pod.metadata.deletion_timestamp is not None and found.confidence is Confidence.LOW
    if not ending.is_loss or (taken_away and not cut_off):
        return None
    return Loss(
        index=index,
        pod=pod.name,
        node=pod.spec.node_name,
        ending=ending,
        confidence=found.confidence,
        seconds=ran_seconds(pod, now),
        is_marked=pod.holds("DisruptionTarget") or cut_off,
    )


def is_suspect(loss: Loss) -> bool:
    """Tell whether a look at its node would make a loss sure."""
    return loss.confidence is Confidence.LOW and bool(loss.node)


def is_cut_off(pod: Pod, now: float) -> bool:
    """Tell whether `pod` terminates for longer than any grace explains."""
    # A deletion timestamp is when the grace is over.
    end = pod.metadata.deletion_timestamp
    return pod.is_leaving and end is not None and now > end.timestamp() + CUT_OFF_SECONDS


def ran_seconds(pod: Pod, now: float) -> float:
    """Return for how long the containers of `pod` ran, until now or until its end."""
    start = pod.status.start_time
    if start is None or not pod.spec.node_name:
        return 0.0
    ends = [
        status.state.terminated.finished_at.timestamp()
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    over = pod.is_over and len(ends) == len(pod.status.container_statuses)
    until = max(ends) if over and ends else now
    return max(0.0, until - start.timestamp())
