"""What is asked for: the operator's (or the command line's) parameters as one value.

Nothing is decided here. `core.manifest.build` turns a `JobSpec` into a Job, `core.early` says what
is wrong with one before its templates are rendered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow_batchjob.core.capacity.capacity import Given
    from airflow_batchjob.core.request.budget import Count, Share
    from airflow_batchjob.core.sharing.allocation import Machine


class NotGiven(Enum):
    """Tells "not given" from None, where None means something of its own."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN

TEMPLATED_FIELDS: Final = (
    "manifest",
    "variables",
    "image",
    "command",
    "args",
    "env",
    "pod",
    "labels",
    "annotations",
    "name",
    "namespace",
    "completions",
    "parallelism",
    "max_failed_indexes",
    "min_succeeded",
)
"""Fields that may hold Jinja, or another task's output, until the task runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Everything that is asked of one Job, as given; None or empty is "not given".

    Wherever a mapping is taken, a model of `kubernetes.client` is taken too. Numbers may be text.

    Attributes:
        manifest: A batch/v1 Job, as YAML text (not a path) or as a mapping; None: built from the
            other parameters.
        variables: What `${NAME}` in the manifest's values stands for.
        image: Image of the container.
        command: Replaces the image's entrypoint.
        args: Replaces the arguments.
        env: Name to text, or to `{"valueFrom": …}`; merged by name.
        env_from: EnvFromSources, added after the manifest's own.
        container_resources: `{"requests": …, "limits": …}`, sent as given.
        container: Which container all of these act on; None: the only one, else the first.
        pod: A partial pod spec, merged by Kubernetes' own keys.
        labels: Merged on the Job and its pods.
        annotations: Merged on the Job and its pods.
        service_account_name: Of the pods.
        image_pull_secrets: Names, or `{"name": …}`.
        node_selector: Merged into the manifest's own.
        tolerations: Added to the manifest's own.
        name: Stem of the Job's name.
        namespace: Where the Job goes.
        completions: How many indexes.
        parallelism: How many pods at once.
        machine: What the containers share; text such as "cpu=20,memory=101Gi,gpus=1".
        capacity: "on_demand", "spot", a `SpotPolicy` or an `OnDemand`; to build a Job of it, a `Capacity`
            with the cluster's profiles.
        retries_per_index: Pods of one index that may fail and be replaced.
        backoff_limit: Pods of the whole Job that may fail.
        max_failed_indexes: The Job ends when more indexes have failed; count or percentage.
        min_succeeded: How many indexes must succeed; count or percentage.
        stop_when_succeeded: Don't wait for the rest once `min_succeeded` is reached.
        exit_codes: `{"fail_index": […], "fail_job": […], "skip": […]}`.
        deadline_seconds: Longest active time.
        pending_seconds: Longest time without capacity.
        ttl_seconds_after_finished: How long an ended Job stays; None: for ever.
    """

    manifest: str | Mapping[str, Any] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    image: str | None = None
    command: Sequence[str] | None = None
    args: Sequence[str] | None = None
    env: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    env_from: Sequence[Any] = ()
    container_resources: Mapping[str, Any] | None = None
    container: str | None = None
    pod: Mapping[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account_name: str | None = None
    image_pull_secrets: Sequence[Any] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Any] = ()
    name: str | None = None
    namespace: str | None = None
    completions: Count | None = None
    parallelism: Count | None = None
    machine: Machine | str | None = None
    capacity: Given = None
    retries_per_index: Count | None = None
    backoff_limit: Count | None = None
    max_failed_indexes: Share | None = None
    min_succeeded: Share | None = None
    stop_when_succeeded: bool = False
    exit_codes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    deadline_seconds: Count | None = None
    pending_seconds: Count | None = None
    ttl_seconds_after_finished: Count | NotGiven | None = NOT_GIVEN
