"""One connection to a port of a pod, over a WebSocket (v4.channel.k8s.io).

The first byte of a message is its channel: 0 for data, 1 for an error. The first message of each channel is the port.
"""

import socket as sockets
import struct
import threading
from contextlib import suppress

from hack.embedded.kubelet.pod_status import LOOPBACK
from hack.embedded.pod_spec import Json
from hack.embedded.websocket import PIECE, WebSocket

PROTOCOLS = ("v4.channel.k8s.io",)
DATA, ERROR = 0, 1
CONNECT_SECONDS = 10.0


def forward(socket: WebSocket, pod: Json, port: int) -> None:
    """Copy bytes between the WebSocket and the pod's port, both ways, until either side ends."""
    for channel in (DATA, ERROR):
        socket.send(bytes([channel]) + struct.pack("<H", port))
    host = (pod.get("status") or {}).get("podIP") or LOOPBACK
    try:
        connection = sockets.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        told = f"error forwarding port {port} to pod {name}, uid {uid}: {error}"
        socket.send(bytes([ERROR]) + told.encode())
        socket.close()
        return
    connection.settimeout(None)
    back = threading.Thread(target=_back, args=(socket, connection), daemon=True)
    back.start()
    with connection, suppress(OSError):
        while (message := socket.receive()) is not None:
            if message[:1] == bytes([DATA]):
                connection.sendall(message[1:])
        connection.shutdown(sockets.SHUT_RDWR)
        back.join()


def _back(socket: WebSocket, connection: sockets.socket) -> None:
    with suppress(OSError):
        while piece := connection.recv(PIECE):
            socket.send(bytes([DATA]) + piece)
    socket.close()
