"""POST on one kept connection, like Go's client, with little CPU of its own, so that the service is measured."""

import socket
import time

# The service closes a connection that was silent for 10 s; Go's client would then open a new one too.
IDLE_SECONDS = 5.0


class CallError(Exception):
    """The call got no answer, or a status other than 200."""


class KeptCall:
    """Used by one thread. `close` it."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._address = (host, port)
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._used = 0.0

    def post(self, path: str, body: bytes) -> bytes:
        """Send `body`; returns the body of the answer. Raises CallError."""
        head = f"POST {path} HTTP/1.1\r\nHost: extender\r\nContent-Type: application/json\r\n"
        try:
            connection = self._connected()
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer, kept = _answer(connection)
        except OSError as error:
            raise CallError(f"POST {path}: {error}") from error
        if not kept:
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        now = time.monotonic()
        if now - self._used > IDLE_SECONDS:
            self.close()
        self._used = now
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


def _answer(connection: socket.socket) -> tuple[bytes, bool]:
    """The body, and whether the service keeps the connection: it keeps only so many."""
    text = _more(connection, b"")
    while (end := text.find(b"\r\n\r\n")) < 0:
        text = _more(connection, text)
    head, body = text[:end], text[end + 4 :]
    status, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    length = headers.get(b"content-length")
    if status.split()[1:2] != [b"200"] or length is None:
        raise CallError(f"answered {text[:200].decode(errors='replace')}")
    parts, missing = [body], int(length) - len(body)
    while missing > 0:
        parts.append(_more(connection, b""))
        missing -= len(parts[-1])
    return b"".join(parts), headers.get(b"connection", b"").lower() != b"close"


def _more(connection: socket.socket, before: bytes) -> bytes:
    read = connection.recv(2**18)
    if not read:
        raise ConnectionResetError("the service closed the connection")
    return before + read
