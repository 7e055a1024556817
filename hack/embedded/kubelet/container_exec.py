"""A program in a running container, with its standard streams over a WebSocket (v5.channel.k8s.io).

The first byte of a message is its channel: standard input, output, error; the Status at the end; the size of the
terminal; the end of another channel.
"""

import json
import os
import pty
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hack.embedded.runtime.containers import ContainerAttempt
from hack.embedded.websocket import CLOSE, PIECE, RESIZE, STATUS, STDERR, STDIN, STDOUT, WebSocket

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


def run(socket: WebSocket, attempt: ContainerAttempt, query: Mapping[str, list[str]]) -> None:
    """Run the query's command in the container until it ends or the client closes the connection."""
    terminal = query.get("tty", [""])[-1] in ("1", "true")
    started = _in_terminal if terminal else _with_pipes
    process, stdin, outputs = started(attempt.inside(query.get("command", [])))
    pumps = [
        threading.Thread(target=_pump, args=(socket, channel, descriptor), daemon=True)
        for channel, descriptor in outputs
    ]
    for thread in (*pumps, threading.Thread(target=_feed, args=(socket, process, stdin), daemon=True)):
        thread.start()
    code = process.wait()
    for thread in pumps:
        thread.join()
    with suppress(OSError):
        socket.send(bytes([STATUS]) + json.dumps(end_status(code)).encode())
    socket.close()


def end_status(code: int) -> Mapping[str, Any]:
    """The Status object for an exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip


Started = tuple["subprocess.Popen[bytes]", int, Sequence[tuple[int, int]]]
"""A process, the descriptor of its standard input, and pairs of a channel and the descriptor of an output."""


def _with_pipes(command: Sequence[str]) -> Started:
    process = subprocess.Popen(
        command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        start_new_session=True,
    )  # fmt: skip
    stdin, stdout, stderr = (_detached(stream) for stream in (process.stdin, process.stdout, process.stderr))
    return process, stdin, [(STDOUT, stdout), (STDERR, stderr)]


def _detached(stream: Any) -> int:
    """A copy of a pipe's descriptor; the Popen's own descriptor is closed."""
    with stream:
        return os.dup(stream.fileno())


def _in_terminal(command: Sequence[str]) -> Started:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command, env={}, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    return process, os.dup(ours), [(STDOUT, ours)]


def _pump(socket: WebSocket, channel: int, descriptor: int) -> None:
    """Send the output of the process on `channel`, until the output ends."""
    try:
        # A read from a terminal fails when its other end is closed.
        with suppress(OSError):
            while piece := os.read(descriptor, PIECE):
                socket.send(bytes([channel]) + piece)
    finally:
        os.close(descriptor)


def _feed(socket: WebSocket, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
    """Write the client's input to the process; kill the process when the client closes the connection."""
    is_open = True
    with suppress(OSError):
        while (message := socket.receive()) is not None:
            if message[:2] == bytes([CLOSE, STDIN]) and is_open:
                os.close(descriptor)
                is_open = False
            elif message[:1] == bytes([STDIN]) and is_open:
                os.write(descriptor, message[1:])
            elif message[:1] == bytes([RESIZE]) and os.isatty(descriptor):
                size = json.loads(message[1:])
                termios.tcsetwinsize(descriptor, (size["Height"], size["Width"]))
    if is_open:
        os.close(descriptor)
    process.kill()
