"""The work of a soak: what each task runs, and what must have come of it whatever went wrong around it.

Containers write into files when they start and how they end. What they wrote is the truth that
verdicts are held against.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

SCRIPT = """\
record="$RECORDS/$JOB_COMPLETION_INDEX"
echo "start $$" >> "$record"
run=$(grep -c start "$record")
eval "plan=\\${EXIT_$JOB_COMPLETION_INDEX:-0:0}"
code=${plan%:*}
[ "$run" -le "${plan#*:}" ] || code=0
sleep "$SECONDS_OF_WORK"
echo "end $$ $code" >> "$record"
exit "$code"
"""

CUTS = 2
"""So many tries of a task, at most, are killed: that many more retries it has."""

FOR_EVER = 600.0
ALWAYS = 1_000


class Kind(str, Enum):
    """What becomes of a task's work."""

    WELL = "all goes well"
    TOLERATED = "an index fails, which is allowed"
    HEALS = "an index fails, and succeeds in the next try"
    REPLACED = "a pod fails, and its index has another"
    NEVER = "an index fails in every try"
    RULED_OUT = "an exit code fails the Job for good"
    DEADLINE = "deadline_seconds passes in every try"
    TIMED_OUT = "execution_timeout passes"
    MARKED_FAILED = "somebody marks the task failed"
    CLEARED = "somebody clears the running task"


_OFTEN = {
    Kind.WELL: 8,
    Kind.TOLERATED: 3,
    Kind.HEALS: 4,
    Kind.NEVER: 2,
    Kind.RULED_OUT: 2,
    Kind.DEADLINE: 1,
    Kind.TIMED_OUT: 1,
    Kind.MARKED_FAILED: 2,
    Kind.CLEARED: 2,
}

SUCCEEDS = {Kind.WELL, Kind.TOLERATED, Kind.HEALS, Kind.REPLACED, Kind.CLEARED}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    number: int
    kind: Kind
    completions: int
    parallelism: int
    seconds: float
    exits: dict[int, tuple[int, int]]  # by index: the code, and how many runs end with it
    retries: int
    deferrable: bool
    parameters: dict[str, Any]

    @property
    def succeeds(self) -> bool:
        return self.kind in SUCCEEDS

    @property
    def failing(self) -> frozenset[int]:
        """Indexes that never succeed."""
        if self.seconds == FOR_EVER:
            return frozenset(range(self.completions))
        return frozenset(index for index, (_, runs) in self.exits.items() if runs == ALWAYS)

    def operator_parameters(self, script: Path, records: Path, *, is_local: bool) -> dict[str, Any]:
        """Return what the operator is given; where containers have own files, this machine's are mounted."""
        folder = str(script.parent)
        mounts = {
            "terminationGracePeriodSeconds": 2,
            "volumes": [{"name": "soak", "hostPath": {"path": folder}}],
            "containers": [{"name": "main", "volumeMounts": [{"name": "soak", "mountPath": folder}]}],
        }
        env = {f"EXIT_{index}": f"{code}:{runs}" for index, (code, runs) in self.exits.items()}
        return {
            "image": "none" if is_local else "busybox:1.36",
            "pod": None if is_local else mounts,
            "command": ["sh", str(script)],
            "env": {"RECORDS": str(records), "SECONDS_OF_WORK": str(self.seconds), **env},
            "completions": self.completions,
            "parallelism": self.parallelism,
            "deferrable": self.deferrable,
            "retries": self.retries,
            "logs": "none" if self.number % 3 else "auto",
            **self.parameters,
        }

    def runs_wanted(self, index: int, generations: int) -> range:
        """Return how often an index may have been started, over so many Jobs."""
        if self.seconds == FOR_EVER:
            return range(generations + 1)
        _, failing_runs = self.exits.get(index, (0, 0))
        most = generations if failing_runs == ALWAYS else failing_runs + 1
        if self.kind is Kind.RULED_OUT:
            return range(most + 1)  # what runs beside it is killed, or never starts
        return range(most, most + 1)

    def generations_wanted(self, tries: int) -> range:
        """Return how many Jobs there may have been."""
        match self.kind:
            case Kind.WELL | Kind.TOLERATED | Kind.REPLACED | Kind.CLEARED | Kind.MARKED_FAILED:
                return range(1, 2)
            case Kind.HEALS:
                return range(2, 3)
            case Kind.NEVER | Kind.DEADLINE:
                return range(1, tries + 1)
            case Kind.RULED_OUT | Kind.TIMED_OUT:
                # Killed after the end and before it could tell: the next try can't know that it is final.
                return range(1, tries + 1)


def plans(seed: int, count: int) -> list[Plan]:
    """Return the tasks of a soak; of each kind there is one, if `count` allows it."""
    rng = random.Random(f"work {seed}")
    kinds = [*Kind, *rng.choices(list(_OFTEN), list(_OFTEN.values()), k=max(0, count - len(Kind)))][:count]
    rng.shuffle(kinds)
    return [_plan(number, kind, rng) for number, kind in enumerate(kinds)]


def _plan(number: int, kind: Kind, rng: random.Random) -> Plan:
    completions = rng.randint(2, 4)
    bad = rng.randrange(completions)
    parameters: dict[str, Any] = {}
    exits: dict[int, tuple[int, int]] = {}
    seconds, honest = round(rng.uniform(0, 1.5), 2), 0
    match kind:
        case Kind.WELL | Kind.CLEARED:
            seconds = seconds if kind is Kind.WELL else seconds + 2
        case Kind.TOLERATED:
            exits, parameters = {bad: (7, ALWAYS)}, {"min_succeeded": completions - 1}
        case Kind.HEALS:
            exits, honest = {bad: (7, 1)}, 1
        case Kind.REPLACED:
            exits, parameters = {bad: (7, 1)}, {"retries_per_index": 1}
        case Kind.NEVER:
            exits, honest = {bad: (7, ALWAYS)}, 1
        case Kind.RULED_OUT:
            exits, parameters = {bad: (43, ALWAYS)}, {"exit_codes": {"fail_job": [43]}}
        case Kind.DEADLINE:
            seconds, parameters = FOR_EVER, {"deadline_seconds": 2}
        case Kind.TIMED_OUT:
            seconds, parameters = FOR_EVER, {"execution_timeout_seconds": 6}
        case Kind.MARKED_FAILED:
            seconds = FOR_EVER
    return Plan(
        number=number,
        kind=kind,
        completions=completions,
        parallelism=rng.randint(1, completions),
        seconds=seconds,
        exits=exits,
        retries=honest + CUTS,
        deferrable=rng.random() < 0.6,
        parameters=parameters,
    )


class Records:
    """What the containers of one task wrote."""

    def __init__(self, folder: Path) -> None:
        self.starts: Counter[int] = Counter()
        self.succeeded: Counter[int] = Counter()
        for record in folder.iterdir():
            for line in record.read_text().splitlines():
                what, *rest = line.split()
                if what == "start":
                    self.starts[int(record.name)] += 1
                elif rest[1] == "0":
                    self.succeeded[int(record.name)] += 1
