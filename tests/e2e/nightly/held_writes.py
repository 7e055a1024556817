"""An admission webhook that holds writes of the allocator, so that a test can kill the allocator around a write.

The product does not know of it: the API server asks the webhook before it stores a write. While a write is held, the
allocator waits for its answer.
"""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from device_plugin.core.contract.claims import GROUP, VERSION
from hack.testbed.certificates import Authority
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.waiting import eventually

ALLOCATOR = "system:serviceaccount:vgpu-system:vgpu-cluster"
HOST = "127.0.0.1"
# Longer than a test needs, and shorter than the API server waits.
HELD_SECONDS = 15.0
WEBHOOK_SECONDS = 20


class Write(Enum):
    """The three writes by which a pod with a claim is bound: resource and subresource."""

    FINALIZER = ("resourceclaims", "")
    ALLOCATION = ("resourceclaims", "status")
    BINDING = ("pods", "binding")


@dataclass
class HeldWrites:
    """Holds the first such write to each object that `wanted` names, until `store` or `drop` is called.

    The object is the pod, or the claim that has the pod's name.
    """

    wanted: Mapping[str, Write]
    held: set[str] = field(default_factory=set)
    # By name of an object, once its write may be answered: whether the API server stores it.
    _answers: dict[str, bool] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def store(self, *names: str) -> None:
        """Let the API server store the held writes to these objects."""
        self._answer(names, allowed=True)

    def drop(self, *names: str) -> None:
        """Let the API server refuse the held writes to these objects."""
        self._answer(names, allowed=False)

    def _answer(self, names: tuple[str, ...], *, allowed: bool) -> None:
        with self._changed:
            self._answers.update(dict.fromkeys(names, allowed))
            self._changed.notify_all()

    def review(self, request: Mapping[str, Any]) -> bool:
        """Hold the write if it is wanted; returns true if it may be stored."""
        name, what = request["name"], (request["resource"]["resource"], request.get("subResource", ""))
        by_allocator = request["userInfo"]["username"] == ALLOCATOR
        with self._changed:
            if not by_allocator or name in self.held or name not in self.wanted:
                return True
            if self.wanted[name].value != what:
                return True
            self.held.add(name)
            self._changed.wait_for(lambda: name in self._answers, HELD_SECONDS)
            return self._answers.get(name, True)


class Webhook:
    """Serves the reviews of the API server for one namespace; `writes` decides about them."""

    def __init__(self) -> None:
        self.writes = HeldWrites({})
        self._reviewed = set[str]()

    def has_reviewed(self, name: str) -> bool:
        """True if the API server has asked about an object of this name."""
        return name in self._reviewed

    def review(self, request: Mapping[str, Any]) -> bool:
        """Returns true if the write may be stored, after holding it if it is wanted."""
        self._reviewed.add(request["name"])
        return self.writes.review(request)


@contextmanager
def webhook(kubectl: Kubectl, authority: Authority) -> Iterator[Webhook]:
    """A webhook that the API server asks about writes in kubectl's namespace, once it is known to ask."""
    authority.issue("webhook", "webhook", hosts=[HOST])
    made = Webhook()
    server = ThreadingHTTPServer((HOST, 0), _handler(made.review))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.file("webhook", "crt"), authority.file("webhook", "key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"holds-{kubectl.namespace}"
    cluster = Kubectl("")
    cluster.apply(_configuration(name, kubectl.namespace, server.server_port, authority.certificate))
    try:
        assert eventually(lambda: _asked(kubectl, made), 30)
        yield made
    finally:
        cluster("delete", "validatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()


def _asked(kubectl: Kubectl, made: Webhook) -> bool:
    """Bind a pod that does not exist; returns true if the API server has asked about it."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "nobody"}, "target": target}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/nobody/binding"
    try:
        kubectl("create", "--raw", path, "--filename=-", given=json.dumps(body))
    except KubectlError:
        return made.has_reviewed("nobody")
    return False


def _configuration(name: str, namespace: str, port: int, certificate: Path) -> dict[str, Any]:
    rules = [
        {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["UPDATE"],
         "resources": ["resourceclaims", "resourceclaims/status"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]},
    ]  # fmt: skip
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "holds.vgpu.io",
                "clientConfig": {"url": f"https://{HOST}:{port}/", "caBundle": _base64(certificate)},
                "rules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": WEBHOOK_SECONDS,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _base64(file: Path) -> str:
    return b64encode(file.read_bytes()).decode()


def _handler(review: Callable[[Mapping[str, Any]], bool]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers AdmissionReviews."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = asked["request"]
            answer = {"uid": request["uid"], "allowed": review(request)}
            body = json.dumps({**asked, "request": None, "response": answer}).encode()
            with suppress(OSError):  # the API server waits no longer: the allocator was killed
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    return Handler
