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

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import from_kubeconfig
from device_plugin.kube.api import Ref
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
    with pytest.raises(UnknownError, match=r"API server https://127\.0\.0\.1.*certificate verify failed"):
        holder(ours(strangers), {})


def test_a_certificate_for_another_name_is_not_believed(holder: Any, authority: Authority) -> None:
    with pytest.raises(UnknownError, match=r"IP address mismatch.*127\.0\.0\.1"):
        holder({"certificate-authority": str(authority.certificate)}, {})


def test_with_skip_verify_anybody_is_believed_and_the_log_says_so(
    holder: Any, strangers: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert holder({"insecure-skip-tls-verify": True}, {}) == "nobody"
    assert "insecure-skip-tls-verify: whoever answers at https://127.0.0.1" in caplog.text
    assert holder({**ours(strangers), "insecure-skip-tls-verify": True}, {}) == "nobody"
