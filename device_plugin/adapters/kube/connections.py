"""HTTP/1.1 connections to the API server, kept between requests; what it answers is read by llhttp.

A general client of HTTP costs several times as much for each Binding as the decision itself.
"""

import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit

import httptools

from device_plugin.adapters.kube.endpoint import Endpoint

# More are closed after their request.
KEPT = 32
PIECE = 1 << 16
# What may stand in a path or query as it is (RFC 3986); everything else is escaped.
_SAFE = "/?:@!$&'()*+,;=%"
# Where there was no answer, or not a whole one: what was asked may have happened, or may not.
LOST = (OSError, httptools.HttpParserError)


class Connection:
    """One connection, for one request at a time. Any call may raise one of LOST."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.status = 0
        self.complete = self.keeps = False
        self._socket = connected
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._unasked = False

    @property
    def dropped(self) -> bool:
        """True if the server has closed it, or said what nobody asked for."""
        return bool(self._poll.poll(0))

    def ask(self, request: bytes, silence: float) -> None:
        """Send a request and read the answer's head; the server may be silent for `silence` seconds at a time."""
        self.complete = self.keeps = False
        self.status = 0
        self._socket.settimeout(silence)
        self._socket.sendall(request)
        while not self.status:
            self._receive()

    def body(self) -> Iterator[bytes]:
        """The answer's body, as it comes."""
        while self._parts or not self.complete:
            if self._parts:
                parts, self._parts = self._parts, []
                yield b"".join(parts)
            else:
                self._receive()

    def interrupt(self) -> None:
        """End it from another thread: whoever reads from it finds its end."""
        # Not the method of a TLS socket, which is for the thread that reads.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _receive(self) -> None:
        data = self._socket.recv(PIECE)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._parser.feed_data(data)
        if self._unasked:
            raise ConnectionResetError("the server said more than one answer")

    # llhttp calls these.

    def on_message_begin(self) -> None:
        """An answer begins, or a second one where there should be none."""
        self._unasked = self.complete

    def on_headers_complete(self) -> None:
        """The body follows; 100 Continue and the like are no answers."""
        if self._parser.get_status_code() >= 200:
            self.status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """A part of it."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """That was all."""
        self.complete = self.status > 0
        self.keeps = self._parser.should_keep_alive()


class Connections:
    """Kept connections to one API server, for any thread."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._url = urlsplit(endpoint.url)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytearray]:
        """Status and body of the answer. Raises one of LOST."""
        connection = self._taken()
        try:
            connection.ask(self._text(method, target, headers, body), self._timeout)
            # A list may have 100 MB: gathered in place, it is in memory once.
            status, answer = connection.status, bytearray()
            for part in connection.body():
                answer += part
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return status, answer

    def stream(self, target: str, headers: Mapping[str, str], silence: float) -> Connection:
        """A connection whose body is the answer to a GET. Close it. Raises one of LOST."""
        connection = self._opened()
        try:
            connection.ask(self._text("GET", target, headers, None), silence)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _text(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {self._url.path}{quote(target, _SAFE)} HTTP/1.1", f"Host: {self._url.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1") + (body or b"")

    def _taken(self) -> Connection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if not connection.dropped:
                return connection
            connection.close()
        return self._opened()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.keeps and len(self._idle) < KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _opened(self) -> Connection:
        host, secure = self._url.hostname or "", self._url.scheme == "https"
        plain = socket.create_connection((host, self._url.port or (443 if secure else 80)), self._timeout)
        if not secure:
            return Connection(plain)
        try:
            name = self._endpoint.name or host
            return Connection(self._context().wrap_socket(plain, server_hostname=name))
        except BaseException:
            plain.close()
            raise

    def _context(self) -> ssl.SSLContext:
        """Made anew for each connection, because the files are replaced now and then."""
        context = ssl.create_default_context(cafile=self._endpoint.ca)
        if not self._endpoint.verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self._endpoint.cert:
            context.load_cert_chain(self._endpoint.cert, self._endpoint.key)
        return context
