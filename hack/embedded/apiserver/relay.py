"""Requests that are passed on: to the kubelet of a pod (`log`, `exec`, `portforward`), or to the pod itself (`proxy`).

Model: k8s.io/kubernetes pkg/registry/core/pod/rest and strategy.go (LogLocation, streamLocation, ResourceLocation).
Only GET requests without a body are passed on; clients open WebSockets with GET too.
"""

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import parse_qs

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.resources import NODES, PODS
from hack.embedded.apiserver.store import Object, ObjectStore

_PATH = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/:]+)"
    r"(?:/(?P<what>log|exec|portforward)|(?::(?P<port>[0-9]+))?/proxy(?P<rest>/.*)?)"
)
# Headers that begin a WebSocket, in the request and in the answer.
_OPENING = ("Connection", "Upgrade", "Sec-WebSocket-Version", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol")
_OPENED = ("Connection", "Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol")
_PIECE = 64 * 1024
CONNECT_SECONDS = 10.0


class RelayTarget(NamedTuple):
    """A request about a pod: for `what` at its kubelet, or with an empty `what` for the path `rest` at a pod's port."""

    namespace: str
    name: str
    what: str
    port: int
    rest: str


def target(path: str) -> RelayTarget | None:
    """The target of a decoded URL path; None if requests for the path are not passed on."""
    if (match := _PATH.fullmatch(path)) is None:
        return None
    rest = match["rest"] or "/"
    return RelayTarget(match["namespace"], match["name"], match["what"] or "", int(match["port"] or 0), rest)


def pass_on(handler: BaseHTTPRequestHandler, store: ObjectStore, to: RelayTarget, query: str) -> None:
    """Forward a request, and send the client the answer of the kubelet or pod. Raises StatusError.

    A WebSocket's connection is closed when it ends.
    """
    pod = store.get(PODS, to.namespace, to.name).value
    where = _kubelet(store, pod, to, query) if to.what else (*_address(pod, to), to.rest)
    if where is None:
        handler.wfile.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        return
    host, port, path = where
    headers = {name: value for name in _OPENING if (value := handler.headers.get(name))}
    connection = HTTPConnection(host, port, timeout=CONNECT_SECONDS)
    with closing(connection):
        try:
            connection.request("GET", f"{path}?{query}" if query else path, headers=headers)
            opened: socket.socket = connection.sock
            answer = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise errors.StatusError(
                503, "ServiceUnavailable", f"error trying to reach service: {error}"
            ) from None
        # An answer that ends with its connection has the socket for itself.
        with closing(answer):
            if to.what and answer.status >= HTTPStatus.BAD_REQUEST:
                raise _refusal(answer)
            opened.settimeout(None)
            if answer.status != HTTPStatus.SWITCHING_PROTOCOLS:
                _copy(handler, answer)
                return
            handler.close_connection = True
            with suppress(ConnectionError, TimeoutError, ValueError):
                _join(handler, answer, opened)


def _kubelet(store: ObjectStore, pod: Object, to: RelayTarget, query: str) -> tuple[str, int, str] | None:
    """Host, port and path for the request at the kubelet; None for the log of an unbound pod. Raises StatusError."""
    of = f"{to.namespace}/{to.name}"
    if to.what == "portforward":
        path = f"/portForward/{of}"
    else:
        container = _container(pod, parse_qs(query).get("container", [""])[-1])
        path = f"/{'containerLogs' if to.what == 'log' else 'exec'}/{of}/{container}"
    node = pod["spec"].get("nodeName", "")
    if not node and to.what == "log":
        return None
    if not node:
        raise errors.bad_request(f"pod {to.name} does not have a host assigned")
    status = store.get(NODES, "", node).value["status"]
    return status["addresses"][0]["address"], int(status["daemonEndpoints"]["kubeletEndpoint"]["Port"]), path


def _container(pod: Object, asked: str) -> str:
    """The name of the asked container; if none is named, of the pod's only container. Raises StatusError 400."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    main = [each["name"] for each in spec["containers"]]
    there = [*(each["name"] for each in spec.get("initContainers") or ()), *main]
    if not asked and len(main) > 1:
        raise errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(there)}]"
        )
    asked = asked or main[0]
    if asked not in there:
        raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _address(pod: Object, to: RelayTarget) -> tuple[str, int]:
    """Address and port of a pod. Raises StatusError."""
    if not (address := (pod.get("status") or {}).get("podIP")):
        raise errors.bad_request("address not allowed")
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return str(address), to.port or int(ports[0]["containerPort"] if ports else 80)


def _refusal(answer: HTTPResponse) -> errors.StatusError:
    """The error for a client whose request a kubelet has refused."""
    reasons = {HTTPStatus.BAD_REQUEST: "BadRequest", HTTPStatus.NOT_FOUND: "NotFound"}
    text = answer.read().decode(errors="replace").strip()
    return errors.StatusError(answer.status, reasons.get(HTTPStatus(answer.status), "InternalError"), text)


def _copy(handler: BaseHTTPRequestHandler, answer: HTTPResponse) -> None:
    """Send the answer to the client, piece by piece as it comes."""
    _head(handler, answer, {"Content-Type": answer.getheader("Content-Type"), "Transfer-Encoding": "chunked"})
    while piece := answer.read1(_PIECE):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")


def _join(handler: BaseHTTPRequestHandler, answer: HTTPResponse, opened: socket.socket) -> None:
    """Send the answer that opens a WebSocket, and copy bytes both ways until either side ends."""
    _head(handler, answer, {name: answer.getheader(name) for name in _OPENED})
    back = threading.Thread(target=_back, args=(handler, answer), daemon=True)
    back.start()
    with suppress(OSError):
        while piece := handler.rfile.read1(_PIECE):
            opened.sendall(piece)
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    back.join()


def _head(handler: BaseHTTPRequestHandler, answer: HTTPResponse, headers: Mapping[str, str | None]) -> None:
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    handler.wfile.write("\r\n".join([f"HTTP/1.1 {answer.status} {answer.reason}", *lines, "", ""]).encode())


def _back(handler: BaseHTTPRequestHandler, answer: HTTPResponse) -> None:
    with suppress(OSError):
        while piece := answer.fp.read1(_PIECE):
            handler.wfile.write(piece)
    with suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)
