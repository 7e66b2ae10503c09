"""How many pods fit one machine by their requests, and how far their limits overcommit it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_batchjob.core.sharing.machine import Machine
from airflow_batchjob.core.sharing.shares import Container, Kind
from airflow_batchjob.core.wording import counted

_TYPED_IN = (
    "guaranteed: requests equal limits and take the machine as it was typed in. A node keeps some for its "
    "own system: what is typed must fit what is allocatable (kubectl describe node), or no pod starts"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """What one pod takes of one resource of the machine, in units of that resource."""

    resource: str  # as a reader knows it: "CPU", "memory", "GPUs"
    total: int  # the machine's
    requests: int  # what the scheduler counts
    limits: int  # what the containers and sidecars may use

    @property
    def pods(self) -> int | None:
        """How many pods fit by this resource; None where they ask for none of it."""
        return self.total // self.requests if self.requests else None

    def times_committed(self, pods: int) -> str:
        """How many machines so many pods take when they use all their limits: "4.0"."""
        tenths = (20 * pods * self.limits + self.total) // (2 * self.total)  # rounded, without floats
        return f"{tenths // 10}.{tenths % 10}"


def pod_size(
    name: str,
    kind: Kind,
    total: int,
    shares: Iterable[tuple[int, int]],
    init_containers: Sequence[Container],
) -> PodSize:
    """Add up a pod as the scheduler does: containers and sidecars together, or the largest init container.

    Args:
        name: The resource, as a reader knows it.
        kind: Its unit.
        total: What the machine has.
        shares: (request, limit) of each container, in units.
        init_containers: In their order; each runs beside the sidecars before it.
    """
    requests = limits = beside = largest = 0
    for request, limit in shares:
        requests += request
        limits += limit
    for container in init_containers:
        own = kind.units_up(container.request(kind.resource))
        if container.is_sidecar:
            beside += own
            most = container.most(kind.resource)
            limits += kind.units_up(most) if isinstance(most, int) else 0
        else:
            largest = max(largest, beside + own)
    return PodSize(resource=name, total=total, requests=max(requests + beside, largest), limits=limits)


def packing_notes(sizes: Sequence[PodSize], machine: Machine) -> tuple[str, ...]:
    """Return what the author should know: the pods per machine, and whether "guaranteed" can hold."""
    fitting = {size.resource: size.pods for size in sizes if size.pods is not None}
    pods = min(fitting.values())
    scarcest = " and ".join(resource for resource, number in fitting.items() if number == pods)
    uses = " and ".join(
        f"{size.times_committed(pods)} times its {size.resource}" for size in sizes if size.resource != "GPUs"
    )
    if pods == 1:
        fits = f"1 pod fits one machine ({machine}) by its requests (decided by {scarcest})"
    else:
        fits = (
            f"{counted(pods, 'pod fits', 'pods fit')} one machine ({machine}) by their requests (decided by "
            f"{scarcest}). At their limits they take {uses}"
        )
    if machine.guaranteed and not machine.is_allocatable:
        return fits, _TYPED_IN
    return (fits,)
