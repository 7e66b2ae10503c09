"""The name of this Airflow among all that use a cluster."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

DEFAULT_INSTANCE = "default"

_warned: set[str] = set()


def instance_name() -> str:
    """Return the setting `[batchjob] instance`, else the API's base URL, else "default"."""
    from airflow.configuration import conf

    named = str(conf.get("batchjob", "instance", fallback="") or "").strip()
    base_url = str(conf.get("api", "base_url", fallback="") or "").strip()
    return chosen_instance(named, base_url)


def chosen_instance(named: str, base_url: str) -> str:
    """Choose: a name that was given, else a base URL that others can't have too, else the default."""
    if named:
        return named
    url = urlsplit(base_url)
    if url.hostname and not is_this_machine(url.hostname):
        return base_url.rstrip("/")
    return DEFAULT_INSTANCE


def warn_of_default_instance(instance: str, server: str) -> None:
    """Warn once a process where two Airflows might take each other's Jobs for their own."""
    host = urlsplit(server).hostname or server
    if instance != DEFAULT_INSTANCE or is_this_machine(host) or host in _warned:
        return
    _warned.add(host)
    log.warning(
        "Neither [batchjob] instance nor [api] base_url tells this Airflow from others that use %s. "
        "If there are others with DAGs of the same names, set [batchjob] instance in each.",
        server,
    )


def is_this_machine(host: str) -> bool:
    """Tell whether a host name or address means the machine it is used on."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False
