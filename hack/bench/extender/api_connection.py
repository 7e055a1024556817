"""HTTP on one kept connection to the stub API server, written by hand so that it costs little."""

import socket
import socketserver
from collections.abc import Iterable
from contextlib import suppress

_JSON = "Content-Type: application/json\r\n"
PIECE = 2**18


class KeptConnection(socketserver.BaseRequestHandler):
    """Calls `answer` for request after request; that sends one whole answer, or streams one."""

    request: socket.socket

    def handle(self) -> None:
        """Serve until either side closes."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError), self.request.makefile("rb", 65536) as stream:
            while line := stream.readline():
                length = 0
                while header := stream.readline().strip():
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                method, target, _ = line.decode().split()
                self.answer(method, target, stream.read(length))

    def answer(self, method: str, target: str, body: bytes) -> None:
        """Answer one request; subclasses implement it."""
        raise NotImplementedError

    def send(self, status: int, body: bytes) -> None:
        """Send a whole answer."""
        head = f"HTTP/1.1 {status} -\r\n{_JSON}Content-Length: {len(body)}\r\n\r\n"
        self.request.sendall(head.encode() + body)

    def stream(self, parts: Iterable[bytes]) -> None:
        """Send an answer that comes in parts."""
        self.begin()
        gathered = bytearray()
        for part in parts:
            gathered += part
            if len(gathered) > PIECE:
                self.chunk(bytes(gathered))
                gathered.clear()
        if gathered:
            self.chunk(bytes(gathered))
        self.end()

    def begin(self) -> None:
        """Begin an answer of chunks."""
        self.request.sendall(f"HTTP/1.1 200 OK\r\n{_JSON}Transfer-Encoding: chunked\r\n\r\n".encode())

    def chunk(self, part: bytes) -> None:
        """Send one chunk, not empty."""
        self.request.sendall(b"%x\r\n%b\r\n" % (len(part), part))

    def end(self) -> None:
        """Write the end of a chunked answer; the connection stays open."""
        self.request.sendall(b"0\r\n\r\n")

    def until_closed(self) -> None:
        """Wait for the client to close an answer that never ends."""
        self.request.recv(1)
