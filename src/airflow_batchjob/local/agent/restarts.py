"""Whether and when a container that has ended starts again. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

# The kubelet waits 10 s, 20 s, … up to 5 minutes. Here a developer waits for it, and nothing is
# pulled or torn down in between. The first restart comes at once, as with the kubelet.
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0


def delay_seconds(restarts: int) -> float:
    """Return how long to wait before the next start of a container restarted so often."""
    if restarts <= 0:
        return 0.0
    return min(FIRST_DELAY_SECONDS * (1 << min(restarts - 1, 10)), LONGEST_DELAY_SECONDS)


def restarts(container: Object, pod_policy: str, exit_code: int, *, sidecar: bool) -> bool:
    """Return whether the container starts again.

    Args:
        container: Its spec; its own rules come first, then its own policy.
        pod_policy: restartPolicy of the pod.
        exit_code: How it ended.
        sidecar: An init container with restartPolicy Always.
    """
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = "Always" if sidecar else container.get("restartPolicy") or pod_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
