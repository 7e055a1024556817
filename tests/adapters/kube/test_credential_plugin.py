"""Credential plugins: programs that print a token or a certificate, or that fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.credential_plugin import CredentialPlugin
from device_plugin.adapters.kube.endpoint import Endpoint, EndpointError
from device_plugin.kube.api import NODES
from device_plugin.kube.errors import UnknownError

PAST = "2020-01-01T00:00:00Z"
CLUSTER = {"server": "https://a", "config": {"audience": "b"}}


class Plugin:
    """A shell script that notes how it was asked, and prints the answer that the test gives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "login"
        program.write_text(
            f'#!/bin/sh\necho "$* $WHO $KUBERNETES_EXEC_INFO" >> {folder}/asked\n'
            f"cat {folder}/answer\nexit $(cat {folder}/status)\n"
        )
        program.chmod(0o755)
        self.answer()

    def answer(self, text: str | None = None, exits: int = 0, **status: Any) -> None:
        made = {"kind": "ExecCredential", "status": status or {"token": "secret"}}
        (self._folder / "answer").write_text(json.dumps(made) if text is None else text)
        (self._folder / "status").write_text(str(exits))

    def gives(self, token: str, until: str) -> None:
        """Print a token that is good until then."""
        self.answer(token=token, expirationTimestamp=until)

    def asked(self) -> list[str]:
        """The words, the environment and the request of each run."""
        return (self._folder / "asked").read_text().splitlines()

    def made(self, **entry: Any) -> CredentialPlugin:
        entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", **entry}
        return CredentialPlugin(entry, "config", self._folder, CLUSTER)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def test_a_plugin_is_asked_once_while_its_token_is_good(plugin: Plugin) -> None:
    made = plugin.made(args=["get", "token"], env=[{"name": "WHO", "value": "jane"}], provideClusterInfo=True)
    assert made.authorization() == made.authorization() == "Bearer secret"
    (asked,) = plugin.asked()
    words, _, request = asked.partition("{")
    assert words == "get token jane "
    assert json.loads("{" + request)["spec"] == {"interactive": False, "cluster": CLUSTER}


def test_an_expired_token_is_asked_for_again(plugin: Plugin) -> None:
    plugin.gives("old", PAST)
    made = plugin.made()
    plugin.gives("new", "2999-01-01T00:00:00Z")
    assert made.authorization() == made.authorization() == "Bearer new"
    assert len(plugin.asked()) == 2


def test_a_certificate_replaces_the_one_before_it(plugin: Plugin) -> None:
    plugin.answer(clientCertificateData="cert-1", clientKeyData="key-1", expirationTimestamp=PAST)
    made = plugin.made()
    assert made.cert is not None
    assert made.key is not None
    plugin.answer(clientCertificateData="cert-2", clientKeyData="key-2")
    assert made.authorization() is None
    assert (Path(made.cert).read_text(), Path(made.key).read_text()) == ("cert-2", "key-2")
    assert Path(made.key).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"exits": 3}, "ended with 3: run it yourself: you may have to log in"),
        ({"text": ""}, "does not print an ExecCredential"),
        ({"text": "[]"}, "does not print an ExecCredential"),
        ({"text": '{"kind": "Secret", "status": {"token": "a"}}'}, "does not print an ExecCredential"),
        ({"text": "[" * 100_000}, "does not print an ExecCredential"),
        ({"token": 3}, "does not print an ExecCredential"),
        ({"token": "a", "expirationTimestamp": "soon"}, "does not print an ExecCredential"),
        ({"token": ""}, "gives neither a token nor a certificate with its key"),
        ({"clientCertificateData": "a"}, "gives neither a token nor a certificate with its key"),
    ],
    ids=str,
)
def test_an_answer_without_a_credential_is_an_error(
    plugin: Plugin, answer: dict[str, Any], says: str
) -> None:
    plugin.answer(**answer)
    with pytest.raises(EndpointError, match=rf"^kubeconfig config: credential plugin \./login {says}"):
        plugin.made()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            {"command": "no-such-plugin"},
            r"plugin no-such-plugin cannot be run \(No such file or directory\): install it",
        ),
        ({"command": "./x", "installHint": "see\nhttps://x"}, "cannot be run .*: see https://x$"),
        ({"command": ""}, "plugin: write its command"),
        ({"args": 3}, "its args or env are not as Kubernetes has them"),
        ({"env": [3]}, "its args or env are not as Kubernetes has them"),
        ({"args": ["a\0b"]}, "its args or env are not as Kubernetes has them"),
    ],
    ids=str,
)
def test_a_plugin_that_cannot_be_run_is_an_error(plugin: Plugin, entry: dict[str, Any], says: str) -> None:
    with pytest.raises(EndpointError, match=says):
        plugin.made(**entry)


def test_a_token_that_no_header_can_hold_is_not_sent() -> None:
    client = KubeClient(Endpoint("http://127.0.0.1:1", lambda: next(tokens)), "test")
    tokens = iter(("a\r\nX: y", "é"))
    for _ in range(2):
        with pytest.raises(UnknownError, match="the token for it has characters that no header can hold"):
            client.list(NODES)


def test_a_plugin_that_fails_later_is_an_error_of_the_api(plugin: Plugin) -> None:
    plugin.gives("old", PAST)
    made = plugin.made()
    plugin.answer(exits=1)
    with pytest.raises(UnknownError, match="login ended with 1"):
        KubeClient(Endpoint("http://127.0.0.1:1", made.authorization), "test").list(NODES)
