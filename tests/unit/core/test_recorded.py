"""Jobs and pods as real clusters wrote them (tests/data/jobs/), read: status, indexes, causes, diagnoses."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from airflow_batchjob.core.reading.causes import causes_text
from airflow_batchjob.core.reading.diagnosis import Category, diagnose
from airflow_batchjob.core.reading.endings import Ending, ending_of
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.lifecycle import states_of
from airflow_batchjob.core.reading.pods import Lifecycle, Pod, failures_before, lifecycle_of, losses_before
from airflow_batchjob.core.reading.status import Phase, read_status

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FOLDER = Path(__file__).parents[2] / "data" / "jobs"
FILES = sorted(FOLDER.glob("*.yaml"))

FAILED, QUEUED, RUNNING = Lifecycle.FAILED, Lifecycle.QUEUED, Lifecycle.RUNNING
STARTING, STOPPED, SUCCEEDED = Lifecycle.STARTING, Lifecycle.STOPPED, Lifecycle.SUCCEEDED
NO_FILE = "no such file or directory"


@dataclass(frozen=True, kw_only=True)
class Want:
    """What one stage must read as; what is not named is as good as empty."""

    phase: Phase
    reason: str = ""
    counts: tuple[int, int, int] = (0, 0, 0)  # active, ready, terminating
    done: str = ""
    failed: str = ""
    pods: dict[int, Lifecycle] | list[Lifecycle] = field(default_factory=list)  # by index, or of each pod
    causes: str = ""
    endings: list[Ending] = field(default_factory=list)
    trouble: dict[Category, str] = field(default_factory=dict)  # with words that must be in it


WANT: dict[str, Want] = {
    "running": Want(phase=Phase.RUNNING, counts=(2, 2, 0), pods={0: RUNNING, 1: RUNNING}),
    "complete": Want(
        phase=Phase.SUCCEEDED,
        reason="CompletionsReached",
        done="0-2",
        pods={0: SUCCEEDED, 1: SUCCEEDED, 2: SUCCEEDED},
    ),
    "complete-without-indexes": Want(
        phase=Phase.SUCCEEDED, reason="CompletionsReached", pods=[SUCCEEDED, SUCCEEDED]
    ),
    "failing": Want(
        phase=Phase.STOPPING,
        reason="BackoffLimitExceeded",
        counts=(0, 0, 1),
        pods={0: STOPPED, 1: FAILED},
        endings=[Ending.PROGRAM],
    ),
    "failed": Want(
        phase=Phase.FAILED,
        reason="BackoffLimitExceeded",
        # Without a budget for each index no index is listed as failed: how this one ended is not settled.
        pods={1: STOPPED},
        endings=[Ending.PROGRAM],
    ),
    "failed-indexes": Want(
        phase=Phase.FAILED,
        reason="FailedIndexes",
        done="0,2,4",
        failed="1,3",
        pods={0: SUCCEEDED, 1: FAILED, 2: SUCCEEDED, 3: FAILED, 4: SUCCEEDED},
        causes="1x exit 3 in main, 1x exit 4 in main",
        endings=[Ending.PROGRAM, Ending.PROGRAM],
    ),
    "fuse": Want(
        phase=Phase.FAILED,
        reason="MaxFailedIndexesExceeded",
        failed="0,1",
        pods={0: FAILED, 1: FAILED},
        causes="2x exit 1 in main",
        endings=[Ending.PROGRAM, Ending.PROGRAM],
    ),
    "retried": Want(
        phase=Phase.FAILED,
        reason="FailedIndexes",
        failed="0",
        pods={0: FAILED},
        causes="1x exit 7 in main",
        endings=[Ending.PROGRAM, Ending.PROGRAM],
    ),
    "deadline": Want(phase=Phase.FAILED, reason="DeadlineExceeded", done="0", pods={0: SUCCEEDED}),
    "suspended": Want(phase=Phase.SUSPENDED, reason="JobSuspended", done="0"),
    "resumed": Want(
        phase=Phase.RUNNING, counts=(2, 2, 0), done="0", pods={0: SUCCEEDED, 1: RUNNING, 2: RUNNING}
    ),
    "told": Want(phase=Phase.SUSPENDED, reason="JobSuspended", done="0-2,5-8"),
    # It ends with Failed and Suspended both True; the end decides.
    "told-and-stopped": Want(phase=Phase.FAILED, reason="DeadlineExceeded", done="0-2,5-8"),
    "success-policy-met": Want(
        phase=Phase.STOPPING,
        reason="SuccessPolicy",
        counts=(0, 0, 2),
        done="0",
        pods={0: SUCCEEDED, 1: STOPPED, 2: STOPPED},
    ),
    "success-policy": Want(phase=Phase.SUCCEEDED, reason="SuccessPolicy", done="0", pods={0: SUCCEEDED}),
    "failure-policy": Want(
        phase=Phase.FAILED,
        reason="PodFailurePolicy",
        pods=[FAILED],
        causes="1x exit 42 in main",
        endings=[Ending.PROGRAM],
    ),
    "out-of-memory": Want(
        phase=Phase.FAILED,
        reason="FailedIndexes",
        failed="0",
        pods={0: FAILED},
        causes="1x OOMKilled at 64 MiB",
        endings=[Ending.OUT_OF_MEMORY],
    ),
    "evicted": Want(phase=Phase.PENDING, counts=(0, 0, 1), pods={0: QUEUED}, endings=[Ending.DRAINED]),
    "evicted-and-replaced": Want(phase=Phase.RUNNING, counts=(1, 1, 0), pods={0: RUNNING}),
    "evicted-over-storage": Want(
        phase=Phase.FAILED,
        reason="FailedIndexes",
        failed="0",
        pods={0: FAILED},
        causes='1x evicted over its own storage limit ("Usage of EmptyDir volume "scratch" exceeds the limit '
        '"1Mi".")',
        endings=[Ending.STORAGE_LIMIT],
    ),
    "node-lost": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods={0: QUEUED},
        endings=[Ending.NODE_GONE],
        trouble={Category.UNSCHEDULABLE: "0/1 nodes are available"},
    ),
    "image-pull-error": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[STARTING],
        trouble={Category.PULLING: 'failed to resolve reference "127.0.0.1:1/nothing:1"'},
    ),
    "image-pull-back-off": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[STARTING],
        trouble={Category.PULLING: 'Back-off pulling image "127.0.0.1:1/nothing:1"'},
    ),
    "image-never-there": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[STARTING],
        trouble={Category.IMAGE: 'Container image "nothing:1" is not present with pull policy of Never'},
    ),
    "missing-configuration": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[STARTING],
        trouble={Category.CONFIG: 'configmap "nowhere" not found'},
    ),
    "missing-volume": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[STARTING],
        trouble={Category.VOLUME: 'secret "nowhere" not found'},
    ),
    "cannot-start": Want(
        phase=Phase.FAILED,
        reason="FailedIndexes",
        failed="0",
        pods={0: FAILED},
        causes=f'1x main could not start ("exec: "/no/such/program": stat /no/such/program: {NO_FILE}")',
        endings=[Ending.PROGRAM],
    ),
    "crash-loop": Want(
        phase=Phase.RUNNING,
        counts=(1, 0, 0),
        pods=[RUNNING],
        causes="1x exit 1 in main",
        trouble={Category.CRASH_LOOP: "main fails again and again in 1 pod"},
    ),
    "unschedulable": Want(
        phase=Phase.RUNNING,
        counts=(2, 0, 0),
        pods={0: QUEUED, 1: QUEUED},
        trouble={
            Category.UNSCHEDULABLE: "2 pods wait for a machine: 0/2 nodes are available: 2 Insufficient"
        },
    ),
    "quota": Want(phase=Phase.PENDING, trouble={Category.QUOTA: "exceeded quota: none-at-all"}),
    "deleting": Want(phase=Phase.RUNNING, counts=(1, 1, 0), pods=[STOPPED]),
}

# Pods that a suspension killed may be there still, or may be gone: that is a matter of moments.
PODS_MAY_BE_GONE = {"suspended"}
KILLED_BY_A_PAUSE = {0: SUCCEEDED, 1: QUEUED, 2: QUEUED}


@dataclass(frozen=True)
class Recorded:
    """The objects of one file."""

    job: Job
    pods: list[Pod]
    events: list[dict[str, Any]]

    @property
    def soon_after(self) -> datetime:
        times = [pod.metadata.creation_timestamp for pod in self.pods] + [
            self.job.metadata.creation_timestamp
        ]
        return max(time for time in times if time is not None) + timedelta(minutes=1)


@functools.cache
def recorded(path: Path) -> Recorded:
    by_kind: dict[str, list[Any]] = {"Job": [], "Pod": [], "Event": []}
    for one in yaml.load_all(path.read_text(), Loader):
        by_kind[one["kind"]].append(one)
    [job] = by_kind["Job"]
    return Recorded(
        msgspec.convert(job, Job), [msgspec.convert(pod, Pod) for pod in by_kind["Pod"]], by_kind["Event"]
    )


def stage_of(path: Path) -> str:
    return path.stem.split("-", 1)[1]


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_every_stage_is_recorded_of_both_versions() -> None:
    assert {path.stem for path in FILES} == {
        f"{version}-{stage}" for version in ("1.34", "1.37") for stage in WANT
    }


@each_file
def test_a_file_says_where_it_is_from(path: Path) -> None:
    version = path.stem.split("-", 1)[0]
    first = path.read_text().splitlines()[0]

    assert first.startswith(f"# Kubernetes v{version}.")
    assert f"`python -m tests.cluster record {version}`" in first


@each_file
def test_where_the_job_stands(path: Path) -> None:
    want = WANT[stage_of(path)]

    status = read_status(recorded(path).job)

    assert (status.phase, status.reason) == (want.phase, want.reason)
    assert (status.active, status.ready, status.terminating) == want.counts
    assert (str(status.succeeded_indexes), str(status.failed_indexes)) == (want.done, want.failed)
    assert (status.ended_at is not None) is status.phase.is_final


@each_file
def test_how_far_indexes_and_pods_have_come(path: Path) -> None:
    want = WANT[stage_of(path)]
    seen = recorded(path)

    states = states_of(read_status(seen.job), seen.pods)

    if stage_of(path) in PODS_MAY_BE_GONE:
        assert {index: state.lifecycle for index, state in states.items()} in (
            {0: SUCCEEDED},
            KILLED_BY_A_PAUSE,
        )
    elif isinstance(want.pods, dict):
        assert {index: state.lifecycle for index, state in states.items()} == want.pods
    else:
        assert [lifecycle_of(pod) for pod in seen.pods] == want.pods


@each_file
def test_why_what_failed(path: Path) -> None:
    want = WANT[stage_of(path)]
    seen = recorded(path)
    status = read_status(seen.job)

    text = causes_text(status.failed_indexes if status.indexed else None, seen.pods)
    endings = [ending_of(pod) for pod in seen.pods if pod.status.phase == "Failed"]

    assert text == want.causes
    assert stage_of(path) in PODS_MAY_BE_GONE or endings == want.endings


@each_file
def test_what_is_the_matter(path: Path) -> None:
    want = WANT[stage_of(path)]
    seen = recorded(path)

    found = {
        one.category: str(one) for one in diagnose(seen.job, seen.pods, seen.events, now=seen.soon_after)
    }

    assert found.keys() == want.trouble.keys()
    for category, words in want.trouble.items():
        assert words in found[category]


COUNTS: dict[str, list[tuple[int, int]]] = {  # failures and losses before each pod
    "retried": [(0, 0), (1, 0)],
    "evicted": [(0, 0)],
    "evicted-and-replaced": [(0, 1)],
    "node-lost": [(0, 0), (0, 1)],
}


@pytest.mark.parametrize("version", ["1.34", "1.37"])
@pytest.mark.parametrize(("stage", "want"), COUNTS.items(), ids=COUNTS.keys())
def test_failures_and_losses_before_a_pod(version: str, stage: str, want: list[tuple[int, int]]) -> None:
    pods = recorded(FOLDER / f"{version}-{stage}.yaml").pods

    assert [(failures_before(pod), losses_before(pod)) for pod in pods] == want
