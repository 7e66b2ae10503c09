"""Where the configuration comes from, and what is said when it is not there."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_batchjob.client.config import ClusterConfig, ClusterSettings, connect
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ApiUnavailableError, SpecError
from tests.unit.client.scripted import Script, answer, job, kubeconfig

SERVER = "https://10.0.0.1:6443"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with nothing in it, outside of any cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def written(path: Path, tree: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(tree))
    return str(path)


FORMS = {
    "a mapping": lambda tree: tree,
    "JSON text, as the connection form asks for": json.dumps,
    "YAML text": yaml.safe_dump,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
async def test_the_content_of_a_kubeconfig(form: Any) -> None:
    loaded = await ClusterConfig.kubeconfig_content(form(kubeconfig(SERVER))).loaded()

    assert loaded.configuration.host == SERVER
    assert loaded.configuration.api_key == {"BearerToken": "Bearer first"}
    assert loaded.namespace == "ml"


async def test_a_context_by_name() -> None:
    loaded = await ClusterConfig.kubeconfig_content(kubeconfig(SERVER), "elsewhere").loaded()

    assert loaded.namespace == "web"


async def test_the_file_of_a_path(home: Path) -> None:
    path = written(home / "here", kubeconfig(SERVER))

    loaded = await ClusterConfig.of(ClusterSettings(kube_config_path=path)).loaded()

    assert (loaded.configuration.host, loaded.namespace) == (SERVER, "ml")


async def test_nothing_named_means_the_home_directory(home: Path) -> None:
    written(home / ".kube" / "config", kubeconfig(SERVER))

    loaded = await ClusterConfig.of(ClusterSettings()).loaded()

    assert loaded.configuration.host == SERVER


async def test_kubeconfig_is_read_from_the_environment_when_it_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(home / "elsewhere", kubeconfig(SERVER))
    monkeypatch.setenv("KUBECONFIG", f"{home}/missing:{path}")

    loaded = await ClusterConfig.of(ClusterSettings()).loaded()

    assert loaded.configuration.host == SERVER


async def test_a_service_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for name, text in {"token": "abc", "ca.crt": "a CA", "namespace": "batch\n"}.items():
        (home / name).write_text(text)

    loaded = await ClusterConfig.in_cluster(home).loaded()

    assert loaded.configuration.host == "https://10.96.0.1:443"
    assert loaded.configuration.api_key == {"BearerToken": "Bearer abc"}
    assert loaded.namespace == "batch"


async def test_tls_and_proxy_come_from_the_kubeconfig() -> None:
    tree = kubeconfig(SERVER)
    tree["clusters"][0]["cluster"] |= {
        "insecure-skip-tls-verify": True, "proxy-url": "http://proxy:3128", "tls-server-name": "api",
    }  # fmt: skip

    configuration = (await ClusterConfig.kubeconfig_content(tree).loaded()).configuration

    assert (configuration.verify_ssl, configuration.proxy) == (False, "http://proxy:3128")
    assert configuration.tls_server_name == "api"


NAMESPACES = {
    "the settings' own": (ClusterSettings(kube_config=kubeconfig(SERVER), namespace="mine"), "mine"),
    "the context's": (ClusterSettings(kube_config=kubeconfig(SERVER)), "ml"),
    "of the context named": (
        ClusterSettings(kube_config=kubeconfig(SERVER), cluster_context="elsewhere"), "web",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "want"), NAMESPACES.values(), ids=NAMESPACES.keys())
async def test_the_namespace(settings: ClusterSettings, want: str) -> None:
    async with await connect(settings) as client:
        assert client.namespace == want
        assert client.server == SERVER


async def test_a_context_without_a_namespace_means_default() -> None:
    tree = kubeconfig(SERVER)
    del tree["contexts"][0]["context"]["namespace"]

    async with await connect(ClusterSettings(kube_config=tree)) as client:
        assert client.namespace == "default"


def test_two_places_at_once_are_refused() -> None:
    with pytest.raises(SpecError, match="Keep one of them"):
        ClusterSettings(in_cluster=True, kube_config_path="/x")


# ---------------------------------------------------------------- what is said when it does not work


def without(key: str) -> dict[str, Any]:
    tree = kubeconfig(SERVER)
    del tree[key]
    return tree


def with_exec(command: str, *args: str) -> dict[str, Any]:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": list(args)}
    return kubeconfig(SERVER, exec=plugin)


def with_ca(path: str) -> dict[str, Any]:
    tree = kubeconfig(SERVER)
    tree["clusters"][0]["cluster"]["certificate-authority"] = path
    return tree


TROUBLE: dict[str, tuple[ClusterSettings, type[ApiError], str]] = {
    "no such file": (ClusterSettings(kube_config_path="/nowhere/x"), ApiRefusedError, "/x: there is no"),
    "nothing at all": (ClusterSettings(), ApiRefusedError, "batchjob local"),
    "not in a cluster": (ClusterSettings(in_cluster=True), ApiRefusedError, "Service host/port is not set"),
    "no such context": (
        ClusterSettings(kube_config=kubeconfig(SERVER), cluster_context="moon"), ApiRefusedError, "moon",
    ),
    "no clusters": (ClusterSettings(kube_config=without("clusters")), ApiRefusedError, "clusters"),
    "no contexts": (ClusterSettings(kube_config=without("contexts")), ApiRefusedError, "contexts"),
    "text that is no kubeconfig": (ClusterSettings(kube_config="hello"), ApiRefusedError, "not a kubeconfig"),
    "text that is no YAML": (ClusterSettings(kube_config="{a: [hunter2"), ApiRefusedError, "not JSON"),
    "an empty mapping in text": (ClusterSettings(kube_config="{}"), ApiRefusedError, "current-context"),
    "a credential plugin that is not there": (
        ClusterSettings(kube_config=with_exec("no-such-plugin")),
        ApiRefusedError,
        "'no-such-plugin' is not installed",
    ),
    "a credential plugin that fails": (
        ClusterSettings(kube_config=with_exec(sys.executable, "-c", "raise SystemExit('sign in first')")),
        ApiUnavailableError,
        "sign in first",
    ),
    "a CA file that is not there": (
        ClusterSettings(kube_config=with_ca("/nowhere/ca.crt")), ApiRefusedError, "/nowhere/ca.crt",
    ),
    "a CA that is none": (
        ClusterSettings(kube_config=with_ca(__file__)), ApiRefusedError, "kube_config",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "want", "says"), TROUBLE.values(), ids=TROUBLE.keys())
async def test_trouble_names_the_source(
    home: Path, settings: ClusterSettings, want: type[ApiError], says: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await connect(settings)

    assert type(raised.value) is want
    assert says in str(raised.value)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


async def test_a_credential_plugin_gives_the_token(home: Path, script: Script, server: str) -> None:
    given = {
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t-9"},
    }  # fmt: skip
    plugin = {"apiVersion": given["apiVersion"], "command": "echo", "args": [json.dumps(given)]}
    script.says(answer(job()))

    async with await connect(ClusterSettings(kube_config=kubeconfig(server, exec=plugin))) as client:
        await client.get_job("ml", "embed")

    assert script.requests[0].headers["Authorization"] == "Bearer t-9"
