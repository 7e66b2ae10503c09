"""A `kubernetes` connection's extra, read: every field of the provider's form, however it is spelled.

Values come from JSON, from a URI (where all is text) or from the form; names may bear the prefix
that Airflow used before 2.3. Pure: a mapping in, values out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_batchjob.core.errors import Problem, SpecError

if TYPE_CHECKING:
    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.core.capacity.capacity import Profiles
    from airflow_batchjob.core.sharing.machine import Machine

_PREFIX = "extra__kubernetes__"
_TRUE = {"true", "1", "yes", "on", "t", "y"}
_FALSE = {"false", "0", "no", "off", "f", "n", "none", "null", ""}


def cluster_settings(conn_id: str, extra: Mapping[str, Any]) -> ClusterSettings:
    """Return which cluster a connection names, and how to get in.

    Raises:
        SpecError: A field can't be read, or several say where the cluster is.
    """
    from airflow_batchjob.client.config import ClusterSettings

    return ClusterSettings(
        in_cluster=_flag(conn_id, extra, "in_cluster"),
        kube_config_path=_text(extra, "kube_config_path"),
        kube_config=_field(extra, "kube_config") or None,
        cluster_context=_text(extra, "cluster_context"),
        namespace=_text(extra, "namespace"),
        disable_verify_ssl=_flag(conn_id, extra, "disable_verify_ssl"),
        disable_tcp_keepalive=_flag(conn_id, extra, "disable_tcp_keepalive"),
    )


def read_extra(conn_id: str, extra: str | None) -> dict[str, Any]:
    """Return a connection's extra as a mapping.

    Raises:
        SpecError: It is not a JSON object.
    """
    return _json_object(extra, f"extra of connection {conn_id!r}")


def named_machine(name: str, extra: Mapping[str, Any], defaults: str) -> Machine:
    """Look a machine up by its name.

    Args:
        name: As given to the operator.
        extra: The connection's; what is under `batchjob` there wins as a whole.
        defaults: The setting `[batchjob] defaults`, JSON; asked where the connection has nothing.

    Raises:
        SpecError: No machine of that name (all known ones are listed), or one that makes no sense.
    """
    from airflow_batchjob.core.sharing.machine import Machine

    found, _ = _batchjob(extra, defaults)
    machines = found.get("machines") or {}
    if name in machines:
        return Machine.from_mapping(machines[name], field=f"machines.{name}")
    known = ", ".join(sorted(machines)) or "none"
    why = f"there is no machine of that name; known: {known}"
    mend = "Name it in the connection's extra under batchjob.machines, or in [batchjob] defaults"
    raise SpecError(Problem("machine", name, why, mend))


def capacity_profiles(extra: Mapping[str, Any], defaults: str) -> Profiles:
    """Return what the cluster calls its spot and on-demand machines; arguments as for `named_machine`.

    Raises:
        SpecError: What stands under `capacity` makes no sense, or names an unknown preset.
    """
    from airflow_batchjob.core.capacity.profiles import read_profiles

    found, origin = _batchjob(extra, defaults)
    return read_profiles(found.get("capacity"), origin)


def _batchjob(extra: Mapping[str, Any], defaults: str) -> tuple[Mapping[str, Any], str]:
    """Return what is said of machines and capacity, and where it stands."""
    given = _field(extra, "batchjob")
    if isinstance(given, str):  # a connection written as a URI
        given = _json_object(given, "batchjob in the connection's extra")
    if given:
        return given, "the connection's extra"
    setting = "the setting [batchjob] defaults"
    return _json_object(defaults, setting), setting


def _field(extra: Mapping[str, Any], name: str) -> Any:
    return extra[name] if name in extra else extra.get(_PREFIX + name)


def _text(extra: Mapping[str, Any], name: str) -> str | None:
    value = _field(extra, name)
    return str(value) if value else None


def _flag(conn_id: str, extra: Mapping[str, Any], name: str) -> bool:
    value = _field(extra, name)
    said = str(value if value is not None else "").strip().lower()
    if said in _TRUE:
        return True
    if said in _FALSE:
        return False
    why = f"neither true nor false, in connection {conn_id!r}"
    raise SpecError(Problem(name, value, why, 'Write "true" or "false"'))


def _json_object(text: str | None, where: str) -> dict[str, Any]:
    if not text or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SpecError(Problem(where, "…", f"not JSON ({error})", "Write a JSON object")) from error
    if not isinstance(found, dict):
        raise SpecError(Problem(where, "…", "not a JSON object", 'Write e.g. {"namespace": "batch"}'))
    return found
