"""The stub API server, a process of its own: it sends prepared bytes, so that it takes little of the measured time.

It serves only the calls of the cluster service, and records any other call as wrong. The API server of hack/embedded
would be too slow: it decodes, checks and encodes the pod of each Binding, which costs more CPU time than the service's
decision.
"""

import re
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

from device_plugin.adapters.http.requests import Reader
from device_plugin.core.contract.grants import Grant
from hack.bench.extender import api_objects
from hack.bench.extender.api_store import NotBoundError, PodStore
from hack.bench.extender.claim_store import CLAIM, CLAIMS, ClaimConflictError, ClaimStore
from hack.bench.extender.cluster_model import ClusterModel

POD_NAME = "vgpu-bench"
# kube-scheduler's identity is its pod's name and a uuid.
LEASE_HOLDER = f"{POD_NAME}_00000000-0000-4000-8000-000000000000"
# Seconds after which a computing thread lets other threads run.
SWITCH_SECONDS = 0.0005
MOST_BODY = 1 << 20
PODS, NODES, AGENTS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces/vgpu-system/pods"
JOBS = "/apis/batch/v1/jobs"
_POD = re.compile(r"/api/v1/namespaces/default/pods/pod-(\d+)(/binding|/status)?")
_HEAD = b"HTTP/1.1 %d -\r\nContent-Type: application/json\r\n"
_VERSION = b'{"gitVersion":"v1.36.0"}'
# No group is installed of the kinds that the job engine starts beside Jobs.
_GROUPS = b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}'
_NOT_FOUND = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'
_CONFLICT = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}'
_CREATED = b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}'
_EXPIRED = b'{"type":"ERROR","object":{"reason":"Expired","code":410}}\n'
_LIST = b'{"metadata":{"resourceVersion":"1"},"items":[%b]}'


def serve(control: Connection, workload: ClusterModel, grants: list[Grant]) -> None:
    """Serve until the parent closes `control`.

    It sends the parent its port first. It answers each message of the parent with the wrong calls and all Bindings.
    """
    # Ctrl-C reaches all processes of a terminal, and our parent ends them in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    with _Server(workload, grants) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with suppress(EOFError, OSError):
            control.send(server.server_address[1])
            while True:
                control.recv()
                control.send((server.wrong + server.store.faults(), server.store.history()))
        server.shutdown()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, workload: ClusterModel, grants: list[Grant]) -> None:
        self.store = PodStore(workload, grants)
        nodes = b",".join(api_objects.node(name, workload) for name in workload.names())
        # Lists that never change, by path.
        self.lists = {NODES: _LIST % nodes, AGENTS: _LIST % b"", JOBS: _LIST % b""}
        self.lease_asked = False
        self.wrong: list[str] = []
        super().__init__(("127.0.0.1", 0), _Client)


class _Client(socketserver.BaseRequestHandler):
    """Serves one connection, which stays open, at little cost: each answer is one write of bytes."""

    request: socket.socket
    server: _Server

    def handle(self) -> None:
        """Answer requests until either side closes the connection."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = Reader(MOST_BODY)
        with suppress(OSError):
            while data := self.request.recv(1 << 16):
                reader.feed(data)
                while reader.ready:
                    asked = reader.ready.popleft()
                    self._answer(asked.method, asked.url.decode(), asked.body)

    def _answer(self, method: str, target: str, body: bytes) -> None:
        path, _, query = target.partition("?")
        words = parse_qs(query)
        followed = self._followed(path)
        if method == "GET" and (followed is not None or path in self.server.lists):
            if "watch" in words:
                self._watch(followed, int(words["resourceVersion"][0]))
            elif followed is not None:
                self._stream(followed.listed())
            else:
                self._send(200, self.server.lists[path])
        elif method == "GET" and path == "/version":
            self._send(200, _VERSION)
        elif method == "GET" and path == "/apis":
            self._send(200, _GROUPS)
        elif method == "GET" and path.startswith("/apis/coordination.k8s.io/"):
            # The first read finds no Lease: without an earlier leader, a term begins without a wait for its Bindings.
            asked, self.server.lease_asked = self.server.lease_asked, True
            self._send(200 if asked else 404, api_objects.lease(LEASE_HOLDER) if asked else _NOT_FOUND)
        elif self.server.store.claims is not None and (claim := CLAIM.fullmatch(path)):
            self._of_claim(self.server.store.claims, method, int(claim[1]), body, status=bool(claim[2]))
        else:
            self._of_pod(method, path, body)

    def _followed(self, path: str) -> PodStore | ClaimStore | None:
        """The store of the objects that change at this path; None if they do not change."""
        return {PODS: self.server.store, CLAIMS: self.server.store.claims}.get(path)

    def _of_claim(self, claims: ClaimStore, method: str, number: int, body: bytes, *, status: bool) -> None:
        if method == "GET":
            found = claims.read(number)
            self._send(404 if found is None else 200, found or _NOT_FOUND)
        elif method == "PATCH":
            try:
                self._send(200, claims.patch(number, body, status=status))
            except ClaimConflictError:
                self._send(409, _CONFLICT)
        else:
            self.server.wrong.append(f"{method} of the claim of pod-{number}")
            self._send(404, _NOT_FOUND)

    def _of_pod(self, method: str, path: str, body: bytes) -> None:
        found = _POD.fullmatch(path)
        call = (method, found[2]) if found else None
        if call == ("POST", "/binding"):
            try:
                self.server.store.bind(body)
            except NotBoundError as error:
                self.server.wrong.append(str(error))
                self._send(409, _CONFLICT)
            else:
                self._send(201, _CREATED)
        elif found and call in (("GET", None), ("PATCH", "/status")):
            pod = self.server.store.pod(int(found[1]), touched=method == "PATCH")
            self._send(404 if pod is None else 200, pod or _NOT_FOUND)
        else:
            # The service has no cause for an event or a deletion in this workload: either is a fault.
            self.server.wrong.append(f"{method} {path} {body[:300].decode(errors='replace')}")
            self._send(404, _NOT_FOUND)

    def _watch(self, followed: PodStore | ClaimStore | None, version: int) -> None:
        """Answer with a watch, which is open until the client closes the connection; None: nothing ever changes."""
        self._begin()
        if followed is not None and not followed.watch(version, self._chunk):
            self._chunk(_EXPIRED)
            self._chunk(b"")

    def _stream(self, parts: Iterable[bytes]) -> None:
        self._begin()
        for part in parts:
            self._chunk(part)
        self._chunk(b"")

    def _begin(self) -> None:
        self.request.sendall(_HEAD % 200 + b"Transfer-Encoding: chunked\r\n\r\n")

    def _chunk(self, part: bytes) -> None:
        """Send a part of an answer; an empty part ends the answer."""
        self.request.sendall(b"%x\r\n%b\r\n" % (len(part), part))

    def _send(self, status: int, body: bytes) -> None:
        self.request.sendall(_HEAD % status + b"Content-Length: %d\r\n\r\n" % len(body) + body)
