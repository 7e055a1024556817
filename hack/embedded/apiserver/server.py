"""The API server of the one-machine cluster: Kubernetes' HTTP protocol on a loopback port."""

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.admission import ADMIN, PolicyAdmission
from hack.embedded.apiserver.handler import ApiHandler
from hack.embedded.apiserver.policies import load
from hack.embedded.apiserver.registry import ObjectRegistry
from hack.embedded.apiserver.resources import NAMESPACES, RESOURCES, RequestTarget
from hack.embedded.apiserver.store import DEFAULT_HISTORY, Object, ObjectStore

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "vgpu-system")
_MANIFESTS = Path(__file__).parents[3] / "manifests"
_RECORDED = 20_000


class EmbeddedApiServer:
    """The API server, with `start`, `stop` and `url`; its objects and its port stay over `stop` and `start`.

    `policies` are manifest files of admission policies and related objects; the default is `policy_files()`.
    `tokens` maps bearer tokens to user names; without it a token is the user's name. USER@NODE is a user whose token is
    bound to a pod on that node. A request without a token is from ADMIN.
    `history` is the number of changes of a kind that a watcher may miss before it gets 410 Gone.
    `write_requests` has the last writes, also refused ones, each as (user, method, path). `conflicts` has the writes
    that were refused because somebody else had changed the object (409).
    `written` is called with the user and the target of each update and Binding that is stored, before the answer.
    `grants` has the rights that a SubjectAccessReview knows, as (user, verb, plural, namespace); requests need none.
    """

    def __init__(
        self,
        policies: Sequence[Path] | None = None,
        *,
        tokens: Mapping[str, str] | None = None,
        history: int = DEFAULT_HISTORY,
        bookmark_seconds: float = 10.0,
    ) -> None:
        self.store = ObjectStore(history)
        manifests = load(policy_files() if policies is None else policies)
        self.registry = ObjectRegistry(self.store, PolicyAdmission(manifests.policies, self._namespace_of))
        self.bookmark_seconds = bookmark_seconds
        self._tokens = tokens
        self.grants = set[tuple[str, str, str, str]]()
        self._port = 0
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self.write_requests: deque[tuple[str, str, str]] = deque(maxlen=_RECORDED)
        self.conflicts: deque[tuple[str, str, str]] = deque(maxlen=_RECORDED)
        self.written: Callable[[str, RequestTarget], None] = lambda *_: None
        namespaces = [
            {"kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}}
            for name in _NAMESPACES
        ]
        kinds = {resource.kind: resource for resource in RESOURCES if not resource.custom}
        for document in (*namespaces, *manifests.objects):
            target = RequestTarget(kinds[document["kind"]], document["metadata"].get("namespace", ""))
            # The namespace in the manifests exists already.
            with contextlib.suppress(errors.StatusError):
                self.registry.create(ADMIN, target, document)

    def _namespace_of(self, name: str) -> Object:
        """The namespace; if it does not exist, an object without labels: a later step refuses the request."""
        try:
            return self.store.get(NAMESPACES, "", name).value
        except errors.StatusError:
            return {"metadata": {"name": name}}

    @property
    def url(self) -> str:
        """The URL of the server, `http://127.0.0.1:PORT`; the port is known after the first `start`."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen and serve; a later start uses the port of the first one."""
        self._listener = Listener(self, self._port)
        self._port = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, name="apiserver", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Drop every connection and accept no new connections. The objects stay."""
        if self._listener is None or self._thread is None:
            return
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        self._listener.drop_connections()
        self.store.end_watches()
        self._listener = None

    def user(self, authorization: str | None) -> str:
        """The user of a request. Raises StatusError 401 for an unknown token."""
        if authorization is None:
            return ADMIN
        scheme, _, token = authorization.partition(" ")
        user = token if self._tokens is None else self._tokens.get(token, "")
        if scheme != "Bearer" or not user:
            raise errors.unauthorized()
        return user


def policy_files() -> list[Path]:
    """The files of the admission policies that a real cluster gets, in the source tree."""
    return sorted(
        path for path in (_MANIFESTS / "admission").glob("*.yaml") if path.name != "kustomization.yaml"
    )


def job_policy_files() -> list[Path]:
    """The files of the admission policies that the job engine adds to `policy_files`."""
    return [_MANIFESTS / "components" / "jobs" / name for name in ("admission.yaml", "kinds.yaml")]


def claim_policy_files() -> list[Path]:
    """The file of the admission policies that the component dra adds; the terms that it adds to others are left out."""
    return [_MANIFESTS / "components" / "dra" / "admission.yaml"]


class Listener(ThreadingHTTPServer):
    """The listening socket, and a thread for each accepted connection."""

    request_queue_size = 256

    def __init__(self, api: EmbeddedApiServer, port: int) -> None:
        self.api = api
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), ApiHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Record a new connection, and serve it in its own thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Remove the record of a connection when its thread has ended."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        """End every connection without an answer."""
        for connection in self._connections.copy():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
