"""Commands in containers, over a WebSocket of the API server.

Of a burst's pods each is looked into, and more than once: a kubectl for each costs 0.1 s of CPU.
"""

import json
from dataclasses import dataclass
from urllib.parse import urlencode

import websocket  # it comes with the package kubernetes

from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.kube.api import Named

# The first byte of each message says what follows. https://kubernetes.io/docs/reference/using-api/websockets
PROTOCOL = "v4.channel.k8s.io"
STDOUT, STDERR, STATUS = 1, 2, 3
# The API server or the kubelet did not answer, or not so, or the container went away meanwhile.
LOST = (websocket.WebSocketException, OSError)


@dataclass(frozen=True)
class Ended:
    """What a command printed, and the error with which it ended; empty after exit status 0."""

    output: str
    errors: str
    error: str


def execute(
    endpoint: Endpoint, pod: Named, container: str, command: tuple[str, ...], seconds: float
) -> Ended:
    """Run `command` in the container, and return once it has ended. Raises LOST; no message takes over `seconds`."""
    query = {"container": container, "command": command, "stdout": "true", "stderr": "true"}
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec?{urlencode(query, doseq=True)}"
    token = endpoint.authorization()
    stream = websocket.create_connection(
        endpoint.url.replace("http", "ws", 1) + path,
        timeout=seconds,
        subprotocols=[PROTOCOL],
        sslopt={"ca_certs": endpoint.ca, "certfile": endpoint.cert, "keyfile": endpoint.key},
        header={"Authorization": token} if token else {},
    )
    said = {STDOUT: bytearray(), STDERR: bytearray(), STATUS: bytearray()}
    try:
        while message := stream.recv():
            assert isinstance(message, bytes), message
            said[message[0]] += message[1:]
    finally:
        # Not `close`, which leaves the socket open where the server closed first.
        stream.shutdown()  # type: ignore[no-untyped-call]
    output, errors, status = (bytes(said[each]).decode(errors="replace") for each in (STDOUT, STDERR, STATUS))
    return Ended(output, errors, _error(status))


def _error(status: str) -> str:
    """The error that a Status object in JSON tells; nothing comes where the container went away."""
    if not status:
        return "the connection ended before the command"
    told = json.loads(status)
    return "" if told["status"] == "Success" else str(told.get("message") or told.get("reason"))
