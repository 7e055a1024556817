"""Plain kubeconfigs, and those that are left to the library."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.endpoint import EndpointError, context_namespace, from_kubeconfig
from device_plugin.adapters.kube.kubeconfig import read_plain

DATA = base64.b64encode(b"certificate").decode()


def written(
    folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any
) -> str:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "preferences": {},
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **context}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://a:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }  # fmt: skip
    (folder / "config").write_text(json.dumps(config))
    return str(folder / "config")


def test_a_plain_kubeconfig_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "kubernetes", "extensions": []}
    path = written(tmp_path, cluster, {"token": "secret"}, namespace="team-a")
    endpoint = from_kubeconfig(path)
    assert (endpoint.url, endpoint.authorization(), endpoint.name) == (
        "https://a:6443",
        "Bearer secret",
        "kubernetes",
    )
    assert endpoint.ca == str(tmp_path / "ca.crt")
    assert endpoint.verified
    assert context_namespace(path) == "team-a"


def test_data_becomes_files_that_only_the_owner_can_read(tmp_path: Path) -> None:
    user = {"client-certificate-data": DATA, "client-key-data": DATA}
    endpoint = from_kubeconfig(written(tmp_path, {"certificate-authority-data": DATA}, user))
    for name in (endpoint.ca, endpoint.cert, endpoint.key):
        assert name is not None
        assert Path(name).read_bytes() == b"certificate"
        assert Path(name).stat().st_mode & 0o777 == 0o600
        Path(name).unlink()
    assert endpoint.authorization() is None


def test_data_that_is_not_base64_is_refused_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="client-key-data"):
        from_kubeconfig(written(tmp_path, user={"client-key-data": "%"}))


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"insecure-skip-tls-verify": True}, {}),
        ({"proxy-url": "http://proxy"}, {}),
        ({"server": "https://a:99999"}, {}),
        ({}, {"exec": {"command": "login"}}),
        ({}, {"tokenFile": "token"}),
        ({}, {"username": "jane", "password": "secret"}),
        ({}, {"as": "jane"}),
    ],
)
def test_what_is_not_plain_is_left_to_the_library(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    path = written(tmp_path, cluster, user)
    assert read_plain(path) is None
    assert read_plain(f"{path}:{path}") is None
    assert read_plain(written(tmp_path)) is not None
    assert read_plain(written(tmp_path), "nowhere") is None


@pytest.mark.parametrize("read", [from_kubeconfig, context_namespace])
def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, read: Any) -> None:
    path = written(tmp_path)
    with pytest.raises(EndpointError, match=r"there is no context nope: its contexts are c$"):
        read(path, "nope")
    with pytest.raises(EndpointError, match=r"there is no context nope: its contexts are c, c$"):
        read(f"{path}:{path}:{tmp_path}/none", "nope")
    with pytest.raises(EndpointError, match=r"no such file: `--help` says how to name yours"):
        read("/nope", "")


@pytest.mark.parametrize("read", [from_kubeconfig, context_namespace])
def test_without_a_current_context_those_to_choose_from_are_named(tmp_path: Path, read: Any) -> None:
    path = written(tmp_path)
    whole = json.loads(Path(path).read_text())
    for contexts, names in ((whole["contexts"], "c"), ([], "none")):
        Path(path).write_text(json.dumps({**whole, "current-context": "", "contexts": contexts}))
        with pytest.raises(EndpointError, match=f"has no current context: write --context, of {names}$"):
            read(path, "")
