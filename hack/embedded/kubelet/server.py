"""The kubelet's HTTP server: logs of containers, programs in containers, ports of pods; the API server calls it.

Model: k8s.io/kubernetes pkg/kubelet/server, and k8s.io/kubelet pkg/cri/streaming with the WebSocket protocols
v5.channel.k8s.io (`exec`) and v4.channel.k8s.io (`port-forward`). SPDY, the older protocol of both, is not served.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, cast
from urllib.parse import parse_qs, unquote, urlsplit

from hack.embedded.kubelet import container_exec, container_log, pod_ports
from hack.embedded.pod_spec import Json
from hack.embedded.runtime.containers import ContainerAttempt
from hack.embedded.websocket import WebSocket, accept

Query = Mapping[str, list[str]]
_PATH = re.compile(
    r"/(?P<what>containerLogs|exec|portForward)/(?P<namespace>[^/]+)/(?P<pod>[^/]+)(?:/(?P<container>[^/]+))?"
)


class _RefusedError(Exception):
    """A request is refused with this HTTP status and text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Pods(NamedTuple):
    """Functions that find a pod by namespace and name, and the newest attempt of a container by pod and name."""

    named: Callable[[str, str], Json | None]
    attempt: Callable[[Json, str], ContainerAttempt | None]


class KubeletServer:
    """The HTTP server; it serves on a loopback port from its creation until `stop`."""

    def __init__(self, pods: Pods) -> None:
        self._listener = _Listener(pods)
        self.port: int = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="kubelet-http",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests. Running requests end with their containers or clients."""
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()


class _Listener(ThreadingHTTPServer):
    # A client that follows a log keeps its thread after the kubelet's end.
    block_on_close = False
    daemon_threads = True

    def __init__(self, pods: Pods) -> None:
        self.pods = pods
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer one request, and close the connection after it."""
        self.close_connection = True
        url = urlsplit(self.path)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                self._answer(unquote(url.path), parse_qs(url.query, keep_blank_values=True))
        except _RefusedError as error:
            self._head(error.status, str(error).encode())

    def _answer(self, path: str, query: Query) -> None:
        match = _PATH.fullmatch(path)
        pods = cast(_Listener, self.server).pods
        pod = pods.named(match["namespace"], match["pod"]) if match else None
        if match is None or pod is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"pod does not exist: {path}")
        if match["what"] == "portForward":
            pod_ports.forward(self._websocket(pod_ports.PROTOCOLS), pod, int(query["ports"][0]))
            return
        name = match["container"]
        attempt = pods.attempt(pod, name)
        if match["what"] == "exec":
            if attempt is None or attempt.exit_code is not None:
                raise _RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, f'container not found ("{name}")')
            container_exec.run(self._websocket(container_exec.PROTOCOLS), attempt, query)
            return
        if attempt is None or attempt.log is None:
            waits = f'container "{name}" in pod "{match["pod"]}" is waiting to start: ContainerCreating'
            raise _RefusedError(HTTPStatus.BAD_REQUEST, waits)
        self._head(HTTPStatus.OK, None)
        for piece in container_log.lines(attempt, container_log.LogOptions.of(query)):
            self.wfile.write(piece)

    def _head(self, status: HTTPStatus, body: bytes | None) -> None:
        """Send the head of an answer, and its body; with None, the body follows until the connection ends."""
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        media = f"Content-Type: text/plain\r\n{length}Connection: close\r\n"
        self.wfile.write(f"HTTP/1.1 {status} {status.phrase}\r\n{media}\r\n".encode() + (body or b""))

    def _websocket(self, protocols: tuple[str, ...]) -> WebSocket:
        """Open the connection as a WebSocket of one of these protocols. Raises _RefusedError for other requests."""
        asked = [name.strip() for name in (self.headers.get("Sec-WebSocket-Protocol") or "").split(",")]
        protocol = next((name for name in asked if name in protocols), "")
        if (self.headers.get("Upgrade") or "").lower() != "websocket" or not protocol:
            served = f"only WebSockets of the protocol {' or '.join(protocols)} are served here"
            raise _RefusedError(HTTPStatus.BAD_REQUEST, served)
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        for name, value in (
            ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Protocol", protocol),
            ("Sec-WebSocket-Accept", accept(self.headers.get("Sec-WebSocket-Key") or "")),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        return WebSocket(self.connection, self.rfile, masked=False, protocol=protocol)
