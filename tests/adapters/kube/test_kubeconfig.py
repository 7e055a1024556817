"""Kubeconfigs as kubectl reads them: several files, credentials, and what is wrong with one in one line."""

import base64
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.endpoint import EndpointError, context_namespace, from_kubeconfig
from device_plugin.adapters.kube.kubeconfig import context_names
from device_plugin.adapters.yaml_text import MOST_CHARACTERS

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
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(json.dumps(config))
    return str(folder / "config")


def test_a_kubeconfig_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_data_may_have_line_breaks_and_must_be_base64(tmp_path: Path) -> None:
    endpoint = from_kubeconfig(written(tmp_path, {"certificate-authority-data": f"{DATA[:8]}\n{DATA[8:]}\n"}))
    assert endpoint.ca is not None
    assert Path(endpoint.ca).read_bytes() == b"certificate"
    with pytest.raises(EndpointError, match="client-key-data is not base64"):
        from_kubeconfig(written(tmp_path, user={"client-key-data": "%"}))


def test_of_several_files_the_first_with_a_name_counts(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, {"server": f"https://{name}"}, {"tokenFile": "token"}) for name in "ab"]
    (tmp_path / "a" / "token").write_text("of-a\n")
    extra = {"contexts": [{"name": "d", "context": {"cluster": "e", "namespace": "team-d"}}],
             "clusters": [{"name": "e", "cluster": {"server": "http://e"}}]}  # fmt: skip
    (tmp_path / "more").write_text(json.dumps(extra))
    path = os.pathsep.join([str(tmp_path / "nothing"), *paths, str(tmp_path / "more")])
    endpoint = from_kubeconfig(path)
    assert (endpoint.url, endpoint.authorization()) == ("https://a", "Bearer of-a")
    other = from_kubeconfig(path, "d")
    assert (other.url, other.authorization(), context_namespace(path, "d")) == ("http://e", None, "team-d")
    assert context_names(path) == ["c", "d"]


def test_a_user_may_have_a_password_and_act_as_another(tmp_path: Path) -> None:
    user = {"username": "jane", "password": "secret", "as": "ops", "as-groups": ["a", "b"]}
    endpoint = from_kubeconfig(written(tmp_path, user=user))
    assert endpoint.authorization() == f"Basic {base64.b64encode(b'jane:secret').decode()}"
    acts = (("Impersonate-User", "ops"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    assert endpoint.headers == endpoint.impersonating("").headers == acts
    assert endpoint.impersonating("root").headers == (("Impersonate-User", "root"),)


def test_a_server_that_is_not_verified_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = from_kubeconfig(written(tmp_path, {"insecure-skip-tls-verify": True}))
    assert not endpoint.verified
    assert "nothing checks which server answers at https://a:6443" in caplog.text


@pytest.mark.parametrize(
    ("cluster", "user", "says"),
    [
        (
            {"server": "https://a:99999"},
            {},
            "server: 'https://a:99999' is no address of an API server: write https://",
        ),
        ({"server": "https://a:baz"}, {}, "server: 'https://a:baz' is no address"),
        ({"server": "foo bar"}, {}, "server: 'foo bar' is no address"),
        ({"server": "https://a..b"}, {}, "server: 'https://a..b' is no address"),
        ({"server": ""}, {}, "server: '' is no address"),
        ({"server": ["https://a"]}, {}, "server: write one line of text"),
        ({"tls-server-name": ".a"}, {}, "tls-server-name: '.a' is no name of a host"),
        ({"proxy-url": "http://proxy"}, {}, "proxy-url is not supported: run `kubectl proxy`"),
        ({}, {"as-uid": "7"}, "as-uid is not supported: write --as"),
        ({}, {"as": "a", "as-groups": 3}, "as-groups is no list"),
        ({}, {"token": 3}, "token: write one line of text"),
        ({}, {"token": "a\nb"}, "token: write one line of text"),
        ({}, {"exec": "login"}, "credential plugin: write its command"),
        ({}, {"auth-provider": {"name": "oidc"}}, "auth-provider oidc gives no token: log in again"),
        (
            {},
            {"auth-provider": {"name": "oidc", "config": {}}},
            "auth-provider oidc: Invalid kube-config file. Expected key id-token",
        ),
        ({}, {"auth-provider": 3}, "auth-provider"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_said_in_one_line(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], says: str
) -> None:
    path = written(tmp_path, cluster, user)
    with pytest.raises(EndpointError) as raised:
        from_kubeconfig(path)
    assert str(raised.value).startswith(f"kubeconfig {path}: {says}")
    assert "\n" not in str(raised.value)


def test_an_auth_provider_is_left_to_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = f"a.{base64.urlsafe_b64encode(b'{}').decode().rstrip('=')}.c"
    path = written(tmp_path, user={"auth-provider": {"name": "oidc", "config": {"id-token": token}}})
    assert from_kubeconfig(path).authorization() == f"Bearer {token}"
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(EndpointError, match=r"oidc: run pip install '\.\[cli\]'"):
        from_kubeconfig(path)


@pytest.mark.parametrize("read", [from_kubeconfig, context_namespace])
def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, read: Any) -> None:
    path = written(tmp_path)
    with pytest.raises(EndpointError, match=r"there is no context nope: its contexts are c$"):
        read(path, "nope")
    with pytest.raises(EndpointError, match=r"there is no context nope: its contexts are c$"):
        read(f"{path}:{path}:{tmp_path}/none", "nope")
    with pytest.raises(
        EndpointError, match=r"kubeconfig /nope does not exist: name another one with --kubeconfig"
    ):
        read("/nope", "")


@pytest.mark.parametrize("read", [from_kubeconfig, context_namespace])
def test_without_a_current_context_those_to_choose_from_are_named(tmp_path: Path, read: Any) -> None:
    path = written(tmp_path)
    whole = json.loads(Path(path).read_text())
    for contexts, says in (
        (whole["contexts"], "no current context: name one with --context: c$"),
        ([], "no context$"),
    ):
        Path(path).write_text(json.dumps({**whole, "current-context": "", "contexts": contexts}))
        with pytest.raises(EndpointError, match=f"has {says}"):
            read(path, "")


NO_LIST = "is no kubeconfig: contexts is no list of entries with names"
BROKEN: Mapping[bytes, str] = {
    b"\xff": "is not YAML: it is not text",
    b"\x00{": "is not YAML: unacceptable character #x0000",
    b"a: [": "is not YAML: line 2: did not find expected node content",
    b"a: b: c": "is not YAML: line 1: mapping values are not allowed",
    b"- " * 100_000: "is not YAML: it is nested deeper than 100 levels",
    b"a: !!int ''": "is not YAML: ",
    b"a: 2001-99-99": "is not YAML: month must be in 1..12",
    b"words": "is no kubeconfig: it has no contexts, clusters and users",
    b"[1]": "is no kubeconfig: it has no contexts, clusters and users",
    b"contexts: 3": NO_LIST,
    b"contexts: {a: b}": NO_LIST,
    b"contexts: [3]": NO_LIST,
    b"contexts: [{context: {}}]": NO_LIST,
    b"#" * (MOST_CHARACTERS + 1): f"is no kubeconfig: it is longer than {MOST_CHARACTERS} characters",
    b"": "has no context",
}


@pytest.mark.parametrize(("content", "says"), BROKEN.items(), ids=[repr(each[:20]) for each in BROKEN])
def test_a_file_that_is_no_kubeconfig_is_refused_in_one_line(
    tmp_path: Path, content: bytes, says: str
) -> None:
    config = tmp_path / "config"
    config.write_bytes(content)
    for read in (from_kubeconfig, context_namespace):
        with pytest.raises(EndpointError) as raised:
            read(str(config))
        assert str(raised.value).startswith(f"kubeconfig {config} {says}")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"cluster": "k"}, "clusters has no cluster named 'k'"),
        ({"cluster": "known", "user": "u"}, "users has no user named 'u'"),
        (None, "contexts has no context named 'c'"),
    ],
)
def test_a_context_must_name_what_is_there(tmp_path: Path, context: object, says: str) -> None:
    whole = {"current-context": "c", "contexts": [{"name": "c", "context": context}],
             "clusters": [{"name": "known", "cluster": {"server": "http://a"}}]}  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(whole))
    with pytest.raises(EndpointError, match=says):
        from_kubeconfig(str(tmp_path / "config"))


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="cannot be read: Is a directory"):
        from_kubeconfig(str(tmp_path))


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    Path(path).chmod(0)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0

    def refuses(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuses)  # root may read everything
    with pytest.raises(EndpointError, match="cannot be read: Permission denied"):
        from_kubeconfig(path)
