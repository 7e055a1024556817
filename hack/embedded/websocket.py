"""WebSockets (RFC 6455) with the standard library; clients and kubelets use them for `exec` and `port-forward`."""

import base64
import hashlib
import secrets
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection
from io import BufferedIOBase

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_FINAL, _MASKED = 0x80, 0x80
# Longest message that is accepted, and the most bytes that our own programs send in one.
MOST_BYTES, PIECE = 1 << 20, 32 * 1024
# The channels of Kubernetes' streams (v4 and v5.channel.k8s.io): the first byte of a message.
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class HandshakeError(Exception):
    """The server did not open a WebSocket; `status` and `text` are from its answer."""

    def __init__(self, status: int, text: bytes) -> None:
        super().__init__(f"{status} {text.decode(errors='replace').strip()}")
        self.status = status
        self.text = text


class WebSocket:
    """An open WebSocket over a connection. `masked`: our frames are masked, as a client's frames must be.

    Any thread may send; only one thread receives. `kept` is an object that would close the connection if it were
    garbage-collected.
    """

    def __init__(
        self, connection: socket.socket, reader: BufferedIOBase, *, masked: bool, protocol: str = "",
        kept: object = None,
    ) -> None:  # fmt: skip
        self.protocol = protocol
        self._kept = kept
        self._connection = connection
        self._reader = reader
        self._masked = masked
        self._lock = threading.Lock()

    def send(self, message: bytes) -> None:
        """Send a binary message. Raises OSError if the peer is gone."""
        self._frame(_BINARY, message)

    def receive(self) -> bytes | None:
        """Wait for the next message, and return it; None at the end."""
        message = b""
        while (frame := self._read()) is not None:
            final, opcode, content = frame
            if opcode == _CLOSE:
                return None
            if opcode == _PING:
                self._frame(_PONG, content)
            elif opcode != _PONG:
                message += content
                if final:
                    return message
        return None

    def close(self) -> None:
        """Send a close frame, and end the connection."""
        with suppress(OSError):
            self._frame(_CLOSE, struct.pack("!H", 1000))
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self._connection.close()

    def _read(self) -> tuple[bool, int, bytes] | None:
        """Read the next frame: true if it ends a message, its opcode, its content. None at the end."""
        try:
            first, second = self._exactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._exactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._exactly(8))
            if length > MOST_BYTES:
                return None
            mask = self._exactly(4) if second & _MASKED else b""
            content = self._exactly(length)
        except (OSError, EOFError, ValueError):
            return None
        return bool(first & _FINAL), first & 0x0F, _mask(content, mask) if mask else content

    def _exactly(self, count: int) -> bytes:
        content = self._reader.read(count)
        if content is None or len(content) < count:
            raise EOFError
        return content

    def _frame(self, opcode: int, content: bytes) -> None:
        bit = _MASKED if self._masked else 0
        if len(content) < 126:
            head = struct.pack("!BB", _FINAL | opcode, bit | len(content))
        elif len(content) < 1 << 16:
            head = struct.pack("!BBH", _FINAL | opcode, bit | 126, len(content))
        else:
            head = struct.pack("!BBQ", _FINAL | opcode, bit | 127, len(content))
        if self._masked:
            mask = secrets.token_bytes(4)
            head, content = head + mask, _mask(content, mask)
        with self._lock:
            self._connection.sendall(head + content)


def connect(
    connection: HTTPConnection, path: str, headers: Mapping[str, str], protocols: Sequence[str]
) -> WebSocket:
    """Open a WebSocket to `path` of a server, over this connection. Raises HandshakeError, OSError."""
    key = base64.b64encode(secrets.token_bytes(16)).decode()
    asked = {
        **headers, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": ", ".join(protocols),
    }  # fmt: skip
    connection.request("GET", path, headers=asked)
    # Keep the socket: HTTPConnection drops it if the answer says that the connection closes.
    opened = connection.sock
    answer = connection.getresponse()
    if answer.status != HTTPStatus.SWITCHING_PROTOCOLS or answer.getheader("Sec-WebSocket-Accept") != accept(
        key
    ):
        said = answer.read()
        connection.close()
        raise HandshakeError(answer.status, said)
    opened.settimeout(None)
    protocol = answer.getheader("Sec-WebSocket-Protocol") or ""
    return WebSocket(opened, answer.fp, masked=True, protocol=protocol, kept=answer)


def accept(key: str) -> str:
    """The Sec-WebSocket-Accept that answers a Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()).decode()


def _mask(content: bytes, mask: bytes) -> bytes:
    """The content XORed with the four bytes of the mask, repeated."""
    repeated = (mask * (len(content) // 4 + 1))[: len(content)]
    return (int.from_bytes(content, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(content), "big")
