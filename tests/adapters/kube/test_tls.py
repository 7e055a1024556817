"""TLS: who is believed to be the API server, and how we prove who we are."""

import json
import logging
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.http.client import lost_text
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint, from_kubeconfig
from device_plugin.kube.api import NODES, Ref
from device_plugin.kube.errors import UnknownError
from device_plugin.kube.leases import LEASES
from hack.testbed.certificates import Authority
from tests.requirement import require

# The name in the server's certificate: the address 127.0.0.1 is not in it.
NAME = "api.example"


class SecureServer:
    """Answers each connection once, with a Lease whose holder is the name in the client's certificate."""

    def __init__(self, authority: Authority) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
        self._context.load_cert_chain(authority.file("server", "crt"), authority.file("server", "key"))
        self._context.verify_mode = ssl.CERT_OPTIONAL
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            plain.settimeout(60)
            try:
                with self._context.wrap_socket(plain, server_side=True) as secure:
                    secure.recv(65536)
                    secure.sendall(_answer(_holder(secure.getpeercert())))
            except OSError:
                plain.close()


def _holder(certificate: Any) -> str:
    subject = (certificate or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "nobody")


def _answer(holder: str) -> bytes:
    body = json.dumps({"metadata": {"name": "lease"}, "spec": {"holderIdentity": holder}}).encode()
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    require(shutil.which("openssl"), "openssl is missing: apt-get install openssl")
    made = Authority(tmp_path_factory.mktemp("tls") / "ours")
    made.create()
    made.issue("server", "server", hosts=[NAME])
    made.issue("client", "jane")
    return made


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Authority:  # noqa: ARG001 - openssl
    made = Authority(tmp_path_factory.mktemp("tls") / "theirs")
    made.create()
    return made


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[SecureServer]:
    with closing(SecureServer(authority)) as serving:
        yield serving


@pytest.fixture
def holder(
    server: SecureServer, authority: Authority, tmp_path: Path
) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Who the server says we are, asked with a kubeconfig of this `cluster` and `user`."""

    def ask(cluster: dict[str, Any], user: dict[str, Any]) -> str:
        path = tmp_path / "config"
        authority.kubeconfig("client", server.url, path)
        config = json.loads(path.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"] = {"server": server.url, **cluster}
        config["users"][0]["user"] = user
        path.write_text(json.dumps(config), encoding="utf-8")
        with closing(KubeClient(from_kubeconfig(str(path)), "test", timeout=60.0)) as client:
            return client.get(LEASES, Ref("lease", "ns")).holder

    return ask


def ours(authority: Authority) -> dict[str, Any]:
    return {"certificate-authority": str(authority.certificate), "tls-server-name": NAME}


def test_a_server_of_our_authority_is_believed(holder: Any, authority: Authority) -> None:
    assert holder(ours(authority), {}) == "nobody"


def test_the_client_certificate_is_shown(holder: Any, authority: Authority) -> None:
    user = {
        "client-certificate": authority.file("client", "crt"),
        "client-key": authority.file("client", "key"),
    }
    assert holder(ours(authority), user) == "jane"


def test_a_server_of_another_authority_is_not_believed(holder: Any, strangers: Authority) -> None:
    with pytest.raises(
        UnknownError, match=r"https://127\.0\.0\.1.*its certificate is not trusted: self-signed"
    ):
        holder(ours(strangers), {})


def test_a_certificate_for_another_name_is_not_believed(holder: Any, authority: Authority) -> None:
    with pytest.raises(UnknownError, match=r"IP address mismatch.*127\.0\.0\.1"):
        holder({"certificate-authority": str(authority.certificate)}, {})


def test_with_skip_verify_anybody_is_believed_and_the_log_says_so(
    holder: Any, strangers: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert holder({"insecure-skip-tls-verify": True}, {}) == "nobody"
    assert "insecure-skip-tls-verify: nothing checks which server answers at https://127.0.0.1" in caplog.text
    assert holder({**ours(strangers), "insecure-skip-tls-verify": True}, {}) == "nobody"


class Talker:
    """A server that is no API server: it says `greeting` on each connection, reads a little, and closes it."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with plain:
                plain.sendall(self._greeting)
                plain.recv(65536)


@pytest.mark.parametrize(
    ("scheme", "greeting", "says"),
    [
        (
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "it does not speak TLS: perhaps its address begins with http://",
        ),
        (
            "https",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "it does not speak TLS: perhaps its address begins with http://",
        ),
        (
            "http",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "it does not answer in HTTP: if it speaks TLS, its address begins with https",
        ),
        ("http", b"", "the server closed the connection"),
        (
            "http",
            b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<!doctype ht",
            "the list of nodes cannot be read",
        ),
    ],
    ids=str,
)
def test_what_is_no_api_server_is_said_in_plain_words(scheme: str, greeting: bytes, says: str) -> None:
    with closing(Talker(greeting)) as talker:
        endpoint = Endpoint(f"{scheme}://{talker.address}", lambda: None)
        with (
            closing(KubeClient(endpoint, "test", timeout=60.0)) as client,
            pytest.raises(UnknownError) as raised,
        ):
            client.list(NODES)
    assert says in str(raised.value)


def test_a_server_that_does_not_listen_is_said_in_plain_words() -> None:
    url = "http://127.0.0.1:1"
    with (
        closing(KubeClient(Endpoint(url, lambda: None), "test")) as client,
        pytest.raises(UnknownError) as raised,
    ):
        client.list(NODES)
    assert str(raised.value) == "API server http://127.0.0.1:1: connection refused"
    no_host = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert lost_text(no_host) == "the host's name is not known: Name or service not known"


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}", lambda: None)
        client = KubeClient(endpoint, "test", timeout=0.05)
        with closing(client), pytest.raises(UnknownError, match="no answer in time"):
            client.list(NODES)


def test_files_that_are_no_certificates_are_named(holder: Any, authority: Authority, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    missing = str(tmp_path / "missing.pem")
    for cluster, user, says in (
        (
            {"certificate-authority": str(bad)},
            {},
            f"certificate authority {bad}: TLS fails: no certificate or crl",
        ),
        (
            {"certificate-authority": missing},
            {},
            f"certificate authority {missing}: no such file or directory",
        ),
        (ours(authority), {"client-certificate": str(bad)}, f"client certificate {bad}: TLS fails: "),
    ):
        with pytest.raises(UnknownError) as raised:
            holder(cluster, user)
        assert says in str(raised.value)
