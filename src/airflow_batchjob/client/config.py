"""Where a cluster is and how to get in: from a pod's service account, a kubeconfig, or what is there.

The loaders are kubernetes_asyncio's, so exec plugins, OIDC, TLS and proxies work as they do for the
Kubernetes provider's own operators. They are imported when used: that costs about a second.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ApiUnavailableError, Problem, SpecError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

    from airflow_batchjob.client.kubernetes import KubernetesClient
    from airflow_batchjob.client.transport import Waiting

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"

_MEND = (
    "Name a kubeconfig or in_cluster in the connection, set KUBECONFIG, "
    "or start the local cluster: `batchjob local start`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The fields of a `kubernetes` connection that say which cluster and how.

    At most one of `in_cluster`, `kube_config_path` and `kube_config` is given; none means in-cluster
    if this process runs in one, else the kubeconfig of `KUBECONFIG` or the home directory.
    """

    in_cluster: bool = False
    kube_config_path: str | None = None
    kube_config: str | Mapping[str, Any] | None = None  # JSON or YAML text, or the same as a mapping
    cluster_context: str | None = None  # of the kubeconfig; None: its current one
    namespace: str | None = None  # None: the context's or the service account's
    disable_verify_ssl: bool = False
    disable_tcp_keepalive: bool = False

    def __post_init__(self) -> None:
        named = ("in_cluster", "kube_config_path", "kube_config")
        given = [name for name in named if getattr(self, name)]
        if len(given) > 1:
            why = "each of them says where the cluster is"
            raise SpecError(Problem(" and ".join(given), "(all given)", why, "Keep one of them"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration as just read, and the namespace that its source names ("" where it names none)."""

    configuration: Configuration
    namespace: str


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Where a configuration comes from; `load` reads it anew each time."""

    origin: str  # in words, e.g. "the kubeconfig /home/me/.kube/config"
    load: Callable[[], Awaitable[Loaded]]

    @classmethod
    def in_cluster(cls, service_account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
        """The service account of the pod that this process runs in."""
        origin = f"the service account in {service_account}"

        async def load() -> Loaded:
            from kubernetes_asyncio import client, config

            configuration = client.Configuration()
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration,
                token_filename=str(service_account / "token"),
                cert_filename=str(service_account / "ca.crt"),
            )
            return Loaded(configuration, _text_of(service_account / "namespace"))

        return cls(origin, load)

    @classmethod
    def kubeconfig(cls, path: str | None = None, context: str | None = None) -> ClusterConfig:
        """Kubeconfig files.

        Args:
            path: One file, or several as in `KUBECONFIG`; None: those of `KUBECONFIG`, else
                `~/.kube/config`, looked up when it is loaded.
            context: A context's name; None: the current one.
        """
        paths = path or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        origin = f"the kubeconfig {paths}"

        async def load() -> Loaded:
            from kubernetes_asyncio import client, config

            if not _some_exist(paths):
                raise ApiRefusedError(f"read {origin}", message=f"there is no such file. {_MEND}.")
            configuration = client.Configuration()
            # Not persisted: a file that others write too is theirs.
            loader = await config.load_kube_config(
                config_file=paths, context=context, client_configuration=configuration, persist_config=False
            )
            return Loaded(configuration, _namespace_of(loader.current_context))

        return cls(origin, load)

    @classmethod
    def kubeconfig_content(
        cls, content: str | Mapping[str, Any], context: str | None = None
    ) -> ClusterConfig:
        """The content of a kubeconfig: JSON or YAML text, or the mapping it stands for."""
        origin = "the connection's kube_config"

        async def load() -> Loaded:
            from kubernetes_asyncio import client, config

            tree = yaml.safe_load(content) if isinstance(content, str) else dict(content)
            if not isinstance(tree, dict):
                raise ApiRefusedError(f"read {origin}", message="it is not a kubeconfig in JSON or YAML")
            configuration = client.Configuration()
            loader = await config.load_kube_config_from_dict(
                config_dict=tree, context=context, client_configuration=configuration
            )
            return Loaded(configuration, _namespace_of(loader.current_context))

        return cls(origin, load)

    @classmethod
    def default(cls, context: str | None = None) -> ClusterConfig:
        """In-cluster where this process runs in a cluster, else the default kubeconfig."""
        inside = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()
        return cls.in_cluster() if inside else cls.kubeconfig(context=context)

    @classmethod
    def of(cls, settings: ClusterSettings) -> ClusterConfig:
        """The source that `settings` name."""
        if settings.in_cluster:
            return cls.in_cluster()
        if settings.kube_config_path:
            return cls.kubeconfig(settings.kube_config_path, settings.cluster_context)
        if settings.kube_config:
            return cls.kubeconfig_content(settings.kube_config, settings.cluster_context)
        return cls.default(settings.cluster_context)

    async def loaded(self) -> Loaded:
        """Load, with every trouble as an `ApiError` that names the source and the mend."""
        try:
            return await self.load()
        except ApiError:
            raise
        except Exception as raised:  # noqa: BLE001  all that loaders raise ends as one kind
            raise _error_for(self.origin, raised) from None


async def connect(settings: ClusterSettings, *, waiting: Waiting | None = None) -> KubernetesClient:
    """Return a client for the cluster that `settings` name. Nothing is asked of the cluster yet.

    Close it in the same event loop, best with `async with`.

    Args:
        settings: Which cluster, and how.
        waiting: How to wait between attempts; for tests.

    Raises:
        ApiRefusedError: There is no configuration, or it makes no sense.
        ApiUnavailableError: A credential plugin failed.
    """
    from airflow_batchjob.client.kubernetes import KubernetesClient
    from airflow_batchjob.client.transport import Transport

    # In a thread: it takes about a second, for which a triggerer's other triggers would stand still.
    await asyncio.to_thread(importlib.import_module, "kubernetes_asyncio.config")
    source = ClusterConfig.of(settings)
    first = await source.loaded()
    unused = [first]

    async def load() -> Configuration:
        now = unused.pop() if unused else await source.loaded()
        if settings.disable_verify_ssl:
            now.configuration.verify_ssl = False
        return now.configuration

    try:
        transport = await Transport.open(load, keepalive=not settings.disable_tcp_keepalive, waiting=waiting)
    except OSError as raised:  # ssl.SSLError too
        raise _error_for(source.origin, raised) from None
    return KubernetesClient(transport, namespace=settings.namespace or first.namespace or DEFAULT_NAMESPACE)


def _error_for(origin: str, raised: Exception) -> ApiError:
    """Return what is raised in place of `raised`, not from it: a traceback would show its text."""
    what = f"connect with {origin}"
    log.debug("%s: %s", what, type(raised).__name__)
    said = str(raised) or type(raised).__name__
    if said.startswith("exec: process returned"):
        return ApiUnavailableError(what, message=f"the credential plugin failed: {said[:500]}")
    if isinstance(raised, FileNotFoundError) and raised.filename and not _is_path(raised.filename):
        why = f"the credential plugin {raised.filename!r} is not installed"
        return ApiRefusedError(what, message=f"{why}. Install it where tasks and triggers run.")
    if isinstance(raised, yaml.YAMLError | msgspec.DecodeError):
        # Its text quotes the file, tokens included.
        return ApiRefusedError(what, message="it is not JSON or YAML")
    if isinstance(raised, AttributeError | AssertionError | KeyError | TypeError):
        return ApiRefusedError(
            what, message="it lacks what a kubeconfig must have (clusters, contexts, users)"
        )
    return ApiRefusedError(what, message=f"{said[:500]}. {_MEND}.")


def _some_exist(paths: str) -> bool:
    return any(Path(one).expanduser().is_file() for one in paths.split(os.pathsep) if one)


def _is_path(name: str | bytes) -> bool:
    return os.sep in os.fsdecode(name)


def _namespace_of(context: Any) -> str:
    found = (context or {}).get("context") or {}
    return str(found.get("namespace") or "")


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
