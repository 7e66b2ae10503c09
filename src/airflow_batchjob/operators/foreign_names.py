"""Argument names of other Kubernetes operators, and what they are called here.

People bring them along from the provider's Job and Pod operators. Airflow's own answer to an
unknown argument doesn't say what to write in its place; this one does.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from airflow_batchjob.core.errors import Problem, SpecError

_NOT_NEEDED = "not needed here; leave it out"
_POD = "write pod={…} with the field as Kubernetes spells it"
_MANIFEST = "write manifest= (a file, text or a dict)"
_CONNECTION = "set it on the connection that kubernetes_conn_id names"
_LOGS = 'write logs= ("auto", "all", "failed", "none" or indexes) and log_containers='

FOREIGN_NAMES: Mapping[str, str] = {
    "active_deadline_seconds": "write deadline_seconds=",
    "affinity": _POD,
    "arguments": "write args=",
    "automount_service_account_token": _POD,
    "base_container_name": "write container=",
    "base_container_status_polling_interval": _NOT_NEEDED,
    "callbacks": _NOT_NEEDED,
    "cluster_context": _CONNECTION,
    "cmds": "write command=",
    "completion_mode": "give completions= (the Job is then Indexed), or spec.completionMode in the manifest",
    "config_file": _CONNECTION,
    "configmaps": "write env_from=",
    "container_logs": _LOGS,
    "container_name_log_prefix_enabled": _NOT_NEEDED,
    "container_security_context": _POD,
    "discover_pods_retry_number": _NOT_NEEDED,
    "dns_config": _POD,
    "dnspolicy": _POD,
    "durable": _NOT_NEEDED,
    "env_vars": "write env=",
    "full_job_spec": _MANIFEST,
    "full_pod_spec": "write manifest= or pod=",
    "get_logs": _LOGS,
    "host_aliases": _POD,
    "hostname": _POD,
    "hostnetwork": _POD,
    "image_pull_policy": _POD,
    "in_cluster": _CONNECTION,
    "init_container_logs": _LOGS,
    "init_containers": _POD,
    "is_delete_operator_pod": "write on_finish=",
    "job_poll_interval": _NOT_NEEDED,
    "job_template_file": _MANIFEST,
    "log_events_on_failure": _NOT_NEEDED,
    "log_events_on_startup": _NOT_NEEDED,
    "log_formatter": _NOT_NEEDED,
    "log_pod_spec_on_failure": _NOT_NEEDED,
    "logging_interval": _NOT_NEEDED,
    "manual_selector": _NOT_NEEDED,
    "on_finish_action": "write on_finish=",
    "on_kill_action": _NOT_NEEDED,
    "on_kill_propagation_policy": _NOT_NEEDED,
    "pod_runtime_info_envs": "write env= with valueFrom.fieldRef",
    "pod_template_dict": "write manifest= or pod=",
    "pod_template_file": "write manifest= or pod=",
    "poll_interval": _NOT_NEEDED,
    "ports": _POD,
    "priority_class_name": _POD,
    "progress_callback": _NOT_NEEDED,
    "random_name_suffix": _NOT_NEEDED,
    "reattach_on_restart": _NOT_NEEDED,
    "runtime_class_name": _POD,
    "schedule_timeout_seconds": "write pending_seconds=",
    "schedulername": _POD,
    "secrets": "write env= or env_from= for variables, pod= for volumes",
    "security_context": _POD,
    "selector": _NOT_NEEDED,
    "skip_on_exit_code": 'write exit_codes={"skip": [99]}',
    "startup_check_interval_seconds": _NOT_NEEDED,
    "startup_timeout_seconds": "write pending_seconds=",
    "subdomain": _POD,
    "suspend": "write spec.suspend in the manifest",
    "termination_grace_period": _POD,
    "termination_message_policy": _POD,
    "trigger_kwargs": _NOT_NEEDED,
    "unwrap_single": _NOT_NEEDED,
    "volume_mounts": _POD,
    "volumes": _POD,
    "wait_until_job_complete": "leave it out: this operator always waits",
    "xcom_sidecar_container_security_context": _NOT_NEEDED,
}


def refuse_foreign_names(given: Mapping[str, Any]) -> None:
    """Raise for every name in `given` that other operators have and this one does not.

    Raises:
        SpecError: One problem for each such name, with ours as the mend.
    """
    problems = [
        Problem(
            field=name,
            value=given[name],
            why="this is the name of another operator's argument",
            mend=FOREIGN_NAMES[name][0].upper() + FOREIGN_NAMES[name][1:],
        )
        for name in sorted(given.keys() & FOREIGN_NAMES.keys())
    ]
    if problems:
        raise SpecError(*problems)


def warn_of_foreign_names(task_id: str, default_args: Mapping[str, Any]) -> None:
    """Warn of such names in `default_args`: they are shared with other operators, which may mean them."""
    names = sorted(default_args.keys() & FOREIGN_NAMES.keys())
    if names:
        said = "; ".join(f"{name}: {FOREIGN_NAMES[name]}" for name in names)
        warnings.warn(
            f"Task {task_id!r}: default_args name arguments of other operators, without effect here ({said})",
            UserWarning,
            stacklevel=4,
        )
