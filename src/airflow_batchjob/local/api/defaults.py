"""What the API adds to an object that does not say: the defaults of Jobs, pod templates and pods."""

from __future__ import annotations

import base64
from typing import Any

from airflow_batchjob.local.store import Object

NO_LIMIT = 2**31 - 1


def with_job_defaults(job: Object) -> Object:
    """Return a Job with the defaults of its spec and of its pod template."""
    spec = dict(job.get("spec") or {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    # With a budget of each index's own, the Job's budget must not end it at the sixth failure.
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else NO_LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    only_failed = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if only_failed else "TerminatingOrFailed")
    if only_failed:
        spec["podFailurePolicy"] = _with_policy_defaults(spec["podFailurePolicy"])
    template = spec.get("template") or {}
    spec["template"] = {
        **template,
        "metadata": template.get("metadata") or {},
        "spec": with_pod_spec_defaults(template.get("spec") or {}),
    }
    # Kubernetes does so at each reading, so a Job never stays without labels. It is the same mapping,
    # by which `job_labels` tells labels taken over from labels given.
    labels, metadata = spec["template"]["metadata"].get("labels"), job["metadata"]
    if labels and not metadata.get("labels"):
        metadata = {**metadata, "labels": labels}
    return {**job, "metadata": metadata, "spec": spec}


def _with_policy_defaults(policy: Object) -> Object:
    rules = [
        {**rule, "onPodConditions": [{"status": "True", **pattern} for pattern in rule["onPodConditions"]]}
        if rule.get("onPodConditions")
        else rule
        for rule in policy.get("rules") or ()
    ]
    return {**policy, "rules": rules}


def with_pod_spec_defaults(spec: Object) -> Object:
    """Return a pod spec with the defaults that templates get too."""
    filled = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        **spec,
    }
    account = filled.get("serviceAccountName") or filled.get("serviceAccount")
    if account:
        filled["serviceAccountName"] = filled["serviceAccount"] = account
    for name in ("containers", "initContainers"):
        if name in filled:
            filled[name] = [_with_container_defaults(container) for container in filled[name]]
    if "volumes" in filled:
        filled["volumes"] = [_with_volume_defaults(volume) for volume in filled["volumes"]]
    return filled


def _with_container_defaults(container: Object) -> Object:
    filled: dict[str, Any] = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
        **container,
    }
    image = filled.get("image", "")
    if image:
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        always = tag in ("", "latest") and "@" not in image
        filled.setdefault("imagePullPolicy", "Always" if always else "IfNotPresent")
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    if "env" in filled:
        filled["env"] = [_with_field_version(variable) for variable in filled["env"]]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in filled:
            times = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
            filled[probe] = {**times, **filled[probe]}
    return filled


def _with_field_version(variable: Object) -> Object:
    source = variable.get("valueFrom") or {}
    if "fieldRef" not in source:
        return variable
    return {**variable, "valueFrom": {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}}


def _with_volume_defaults(volume: Object) -> Object:
    if set(volume) == {"name"}:
        return {**volume, "emptyDir": {}}
    for source in ("secret", "configMap", "projected", "downwardAPI"):
        if source in volume:
            return {**volume, source: {"defaultMode": 420, **volume[source]}}
    return volume


def with_pod_defaults(pod: Object) -> Object:
    """Return a pod with every default and the status it begins with; the Job controller uses it too."""
    spec = with_pod_spec_defaults(pod.get("spec") or {})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec = {"enableServiceLinks": True, "serviceAccountName": "default", "serviceAccount": "default", **spec}
    spec = {"preemptionPolicy": "PreemptLowerPriority", "priority": 0, **spec}
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_with_requests(container) for container in spec[name]]
    spec["tolerations"] = _with_node_tolerations(spec.get("tolerations") or [])
    status = {"phase": "Pending", "qosClass": qos_class(spec)}
    return {**pod, "spec": spec, "status": status}


def _with_requests(container: Object) -> Object:
    resources = container.get("resources") or {}
    if "limits" not in resources:
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _with_node_tolerations(tolerations: list[Object]) -> list[Object]:
    held = {one.get("key") for one in tolerations if one.get("effect") in (None, "", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not held & {key, None, ""}
    ]
    return [*tolerations, *added]


def qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, by the CPU and memory of all containers."""
    resources = [
        container.get("resources") or {}
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ()))
    ]
    asked = [one for one in resources if one.get("requests") or one.get("limits")]
    if not asked:
        return "BestEffort"
    names = ("cpu", "memory")
    for one in resources:
        limits, requests = one.get("limits") or {}, one.get("requests") or {}
        if any(name not in limits or requests.get(name, limits[name]) != limits[name] for name in names):
            return "Burstable"
    return "Guaranteed"


def with_service_defaults(service: Object) -> Object:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(service.get("spec") or {})}
    if "ports" in spec:
        spec["ports"] = [
            {"protocol": "TCP", "targetPort": port["port"], **port}
            for port in spec["ports"]
            if "port" in port
        ]
    return {**service, "spec": spec}


def with_secret_defaults(secret: Object) -> Object:
    """Return a Secret as it is stored: stringData, which is only ever written, encoded into data."""
    plain = secret.get("stringData") or {}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    data = {**(secret.get("data") or {}), **encoded}
    rest = {key: value for key, value in secret.items() if key not in ("stringData", "data")}
    return {"type": "Opaque", **rest, **({"data": data} if data else {})}
