"""Streams of bytes for kubectl: logs of containers, programs in containers, forwarded ports."""

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlencode

from hack.embedded.kubectl.api import PODS, Api, KubectlError, refusal
from hack.embedded.websocket import (
    CLOSE,
    PIECE,
    RESIZE,
    STATUS,
    STDERR,
    STDIN,
    STDOUT,
    HandshakeError,
    WebSocket,
    connect,
)

EXEC, PORT = ("v5.channel.k8s.io",), ("v4.channel.k8s.io",)


def logs(api: Api, pod: str, query: Mapping[str, str]) -> None:
    """Print the output of a container, piece by piece as it comes. Raises KubectlError."""
    asked = urlencode({name: value for name, value in query.items() if value})
    connection = api.connection()
    with closing(connection):
        connection.request(
            "GET", f"{PODS.path(api.namespace, pod, 'log')}?{asked}", headers=dict(api.headers)
        )
        connected = connection.sock
        answer = connection.getresponse()
        if answer.status >= 400:
            raise refusal(answer.read())
        connected.settimeout(None)
        while piece := answer.read1(PIECE):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def run(api: Api, pod: str, container: str, command: Sequence[str], *, stdin: bool, terminal: bool) -> int:
    """Run a command in a container; returns its exit code. Raises KubectlError."""
    query = [("container", container)] if container else []
    query += [
        (name, "true") for name, wanted in (("stdin", stdin), ("stdout", True), ("tty", terminal)) if wanted
    ]
    query += [] if terminal else [("stderr", "true")]
    query += [("command", word) for word in command]
    with closing(_opened(api, f"{PODS.path(api.namespace, pod, 'exec')}?{urlencode(query)}", EXEC)) as stream:
        restore = _raw(stream) if terminal and sys.stdin.isatty() else None
        try:
            if stdin:
                threading.Thread(target=_feed, args=(stream,), daemon=True).start()
            return _print(stream)
        finally:
            if restore is not None:
                import termios

                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, restore)


def forward(api: Api, pod: str, ports: Sequence[str], address: str) -> None:
    """Forward local ports to ports of a pod until interrupted. Raises KubectlError."""
    api.get(PODS.path(api.namespace, pod))
    listeners = []
    for each in ports:
        local, _, remote = each.rpartition(":")
        try:
            listener = socket.create_server((address, int(local or (0 if ":" in each else remote))))
            listeners.append((listener, int(remote)))
        except (OSError, ValueError) as error:
            raise KubectlError(f"error: unable to listen on port {each}: {error}") from error
        print(f"Forwarding from {address}:{listener.getsockname()[1]} -> {remote}", flush=True)
    threads = [
        threading.Thread(target=_accept, args=(api, pod, listener, remote), daemon=True)
        for listener, remote in listeners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _opened(api: Api, path: str, protocols: tuple[str, ...]) -> WebSocket:
    try:
        return connect(api.connection(), path, api.headers, protocols)
    except HandshakeError as error:
        raise refusal(error.text) from error
    except OSError as error:
        raise KubectlError(f"error: the API server does not answer: {error}") from error


def _feed(stream: WebSocket) -> None:
    with suppress(OSError):
        while piece := os.read(sys.stdin.fileno(), PIECE):
            stream.send(bytes([STDIN]) + piece)
        stream.send(bytes([CLOSE, STDIN]))


def _print(stream: WebSocket) -> int:
    """Print the program's output until it ends; returns its exit code, which the last message carries."""
    outputs = {STDOUT: sys.stdout.buffer, STDERR: sys.stderr.buffer}
    status: Mapping[str, Any] = {"status": "Failure", "message": "error: the connection was lost"}
    while (message := stream.receive()) is not None:
        channel, content = message[0], message[1:]
        if channel == STATUS:
            status = json.loads(content)
        elif channel in outputs:
            outputs[channel].write(content)
            outputs[channel].flush()
    if status["status"] == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((int(each["message"]) for each in causes if each["reason"] == "ExitCode"), 1)
    told = f"command terminated with exit code {code}" if causes else status["message"]
    print(told, file=sys.stderr)
    return code


def _raw(stream: WebSocket) -> list[Any]:
    """Switch the terminal to raw mode, in which it sends each key at once; returns its earlier state."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    size = os.get_terminal_size()
    stream.send(bytes([RESIZE]) + json.dumps({"Width": size.columns, "Height": size.lines}).encode())
    return before


def _accept(api: Api, pod: str, listener: socket.socket, port: int) -> None:
    with listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_carry, args=(api, pod, connection, port), daemon=True).start()


def _carry(api: Api, pod: str, connection: socket.socket, port: int) -> None:
    """Copy the bytes of one connection both ways until either side ends."""
    path = f"{PODS.path(api.namespace, pod, 'portforward')}?ports={port}"
    with connection:
        try:
            stream = _opened(api, path, PORT)
        except KubectlError as error:
            print(error, file=sys.stderr, flush=True)
            return
        with closing(stream), suppress(OSError):
            threading.Thread(target=_send, args=(stream, connection), daemon=True).start()
            begun: set[int] = set()
            while (message := stream.receive()) is not None:
                if message[0] not in begun:
                    begun.add(message[0])  # the first message of a channel is the port
                elif message[0] == 0:
                    connection.sendall(message[1:])
                else:
                    print(message[1:].decode(errors="replace"), file=sys.stderr, flush=True)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _send(stream: WebSocket, connection: socket.socket) -> None:
    with suppress(OSError):
        while piece := connection.recv(PIECE):
            stream.send(b"\0" + piece)
        stream.close()
