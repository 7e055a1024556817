"""The stub API server, a process of its own: prepared bytes, so that it is not what is measured.

It serves only the calls of the cluster service, and remembers any other one.
"""

import re
import socketserver
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

from device_plugin.core.grants import Grant
from hack.bench.extender import api_objects
from hack.bench.extender.api_connection import KeptConnection
from hack.bench.extender.api_store import NotBoundError, PodStore
from hack.bench.extender.cluster_model import ClusterModel

POD_NAME = "vgpu-bench"
# kube-scheduler's identity is its pod's name and a uuid.
LEASE_HOLDER = f"{POD_NAME}_00000000-0000-4000-8000-000000000000"
# Most seconds that a computing thread keeps other threads waiting.
SWITCH_SECONDS = 0.0005
_POD = re.compile(r"/api/v1/namespaces/default/pods/pod-(\d+)(/binding|/status)?")
_NOT_FOUND = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'
_CONFLICT = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}'
_NO_AGENTS = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
_CREATED = b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}'
_EXPIRED = b'{"type":"ERROR","object":{"reason":"Expired","code":410}}\n'


def serve(control: Connection, workload: ClusterModel, grants: list[Grant]) -> None:
    """Serve until the parent closes `control`: it is sent the port, then what it asks for: "history" or "wrongs"."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with _Server(workload, grants) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with suppress(EOFError, OSError):
            control.send(server.server_address[1])
            while True:
                what = control.recv()
                control.send(
                    server.store.history() if what == "history" else [*server.strange, *server.store.wrongs()]
                )
        server.shutdown()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, workload: ClusterModel, grants: list[Grant]) -> None:
        self.store = PodStore(workload, grants)
        nodes = b",".join(api_objects.node(name, workload) for name in workload.names())
        self.nodes = b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % nodes
        self.lease_asked = False
        self.strange: list[str] = []
        super().__init__(("127.0.0.1", 0), _Routes)


class _Routes(KeptConnection):
    server: _Server

    def answer(self, method: str, target: str, body: bytes) -> None:
        path, _, query = target.partition("?")
        words = parse_qs(query)
        match method, path:
            case "GET", "/api/v1/pods" if "watch" in words:
                self._watch(int(words["resourceVersion"][0]))
            case "GET", "/api/v1/pods":
                self.stream(self.server.store.listed())
            case "GET", "/api/v1/nodes" if "watch" in words:
                self.begin()
                self.until_closed()
            case "GET", "/api/v1/nodes":
                self.send(200, self.server.nodes)
            case "GET", "/api/v1/namespaces/vgpu-system/pods" if "watch" in words:
                self.begin()
                self.until_closed()
            case "GET", "/api/v1/namespaces/vgpu-system/pods":
                self.send(200, _NO_AGENTS)
            case "GET", _ if path.startswith("/apis/coordination.k8s.io/"):
                self._lease()
            case _:
                self._other(method, path, body)

    def _other(self, method: str, path: str, body: bytes) -> None:
        found = _POD.fullmatch(path)
        call = (method, found[2]) if found else None
        if call == ("POST", "/binding"):
            self._bind(body)
        elif found and call == ("GET", None):
            self._pod(self.server.store.pod(int(found[1])))
        elif found and call == ("PATCH", "/status"):
            self._pod(self.server.store.touch(int(found[1])))
        else:
            # The service has no cause for an event or a deletion in this workload: either is a fault.
            self.server.strange.append(f"{method} {path} {body[:300].decode(errors='replace')}")
            self.send(404, _NOT_FOUND)

    def _pod(self, pod: bytes | None) -> None:
        self.send(404 if pod is None else 200, _NOT_FOUND if pod is None else pod)

    def _bind(self, body: bytes) -> None:
        try:
            self.server.store.bind(body)
        except NotBoundError as error:
            self.server.strange.append(str(error))
            self.send(409, _CONFLICT)
        else:
            self.send(201, _CREATED)

    def _lease(self) -> None:
        # There is no Lease at first: without an earlier leader a term begins without waiting for earlier Bindings.
        asked, self.server.lease_asked = self.server.lease_asked, True
        self.send(200 if asked else 404, api_objects.lease(LEASE_HOLDER) if asked else _NOT_FOUND)

    def _watch(self, version: int) -> None:
        self.begin()
        if self.server.store.watch(version, self.chunk):
            try:
                self.until_closed()
            finally:
                self.server.store.unwatch(self.chunk)
        else:
            self.chunk(_EXPIRED)
            self.end()
