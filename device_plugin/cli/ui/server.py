"""Serves the page over HTTP: its files, the stream of changes, and answers about one pod or card.

`PageServer` and `PageHandler` are the common base. `loopback.py` decides who may read which entries of `vgpu ui`, and
`team/server.py` decides it for a team's page. Everything that a client can make the server keep is bounded:
connections, streams, the bytes of a request, and the time in which it must come.
"""

import io
import json
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from types import MappingProxyType
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qs, urlsplit

from device_plugin.cli.ui.entries import Changes
from device_plugin.core.errors import VgpuError
from device_plugin.kube.errors import ForbiddenError

PAGE = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# Most connections, each in a thread, and most streams of browsers among them. A browser opens six connections.
MOST_CONNECTIONS, MOST_STREAMS = 48, 12
# Seconds to wait until a connection that is closed for another one has ended.
DROP_SECONDS = 1.0
# Seconds to wait for a request, and for a browser to receive an answer.
TIMEOUT_SECONDS = 20.0
# Seconds after which a stream without changes sends a sign of life.
ALIVE_SECONDS = 5.0
# Most bytes of a request, head and body together.
MOST_REQUEST = 64 << 10
# Most bytes of a message, unless one entry is larger: the page handles many small messages smoothly.
MOST_BYTES = 32 << 10
# Most bytes of the body of a request: a token has 16 KiB at most.
MOST_BODY = 32 << 10
NO_BODY = f"send JSON of at most {MOST_BODY} bytes"
Answer = Callable[[Mapping[str, str]], object]
"""A function that returns the answer to a request's parameters, as a value for JSON.

It raises LookupError if the object that the parameters name does not exist.
"""


class Reader(Protocol):
    """The page's entries (objects that it shows) as one browser may see them."""

    def since(self, version: int, seconds: float) -> Changes:
        """Returns the entries that changed after `version` (0: all); waits at most `seconds` for the first change."""


class PageServer(ThreadingHTTPServer):
    """Serves the page at `address`, with `answers` for paths such as `/why`."""

    daemon_threads = True
    block_on_close = False
    # Most connections that wait to be accepted: a browser that is refused tries again only after a second.
    request_queue_size = 1024

    def __init__(
        self, address: tuple[str, int], handler: "type[PageHandler]", answers: Mapping[str, Answer], *,
        connections: int = MOST_CONNECTIONS, streams: int = MOST_STREAMS,
    ) -> None:  # fmt: skip
        """Open the port, and read the page's files. Raises OSError if the address cannot be used."""
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        super().__init__(address, handler)
        self.answers = answers
        self.port = int(self.server_address[1])
        self.files = {
            "/" if path.name == "index.html" else f"/{path.name}": (_TYPES[path.suffix], path.read_bytes())
            for path in PAGE.iterdir()
            if path.suffix in _TYPES
        }
        self.ending = threading.Event()
        self.streams = threading.BoundedSemaphore(streams)
        self.readers = set[int]()
        self._connections = threading.BoundedSemaphore(connections)
        # Connections of clients that are not known yet, oldest first.
        self._strangers: dict[socket, None] = {}
        self._strangers_lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread.

        At the limit of connections, the oldest connection of an unknown client is ended for the new one; if there is
        none, the new one is closed.
        """
        if self._connections.acquire(blocking=False) or (
            self._drop_stranger() and self._connections.acquire(timeout=DROP_SECONDS)
        ):
            with self._strangers_lock:
                self._strangers[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.trust(request)
            self._connections.release()

    def trust(self, request: socket) -> None:
        """Take a connection off the list of unknown clients, because its client is known or the connection has ended.

        At the limit of connections, only connections on that list are ended to make room for a new one.
        """
        with self._strangers_lock:
            self._strangers.pop(request, None)

    def _drop_stranger(self) -> bool:
        """End the oldest connection of a client that is not known; returns false if there is none."""
        with self._strangers_lock:
            stranger = next(iter(self._strangers), None)
            if stranger is None:
                return False
            del self._strangers[stranger]
            with suppress(OSError):
                stranger.shutdown(SHUT_RDWR)
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: most errors are of browsers that have closed their connection."""

    def is_open(self) -> bool:
        """True while a browser reads the stream of changes."""
        return bool(self.readers)

    def close(self) -> None:
        """End every stream, and the server; `serve_forever` must run in another thread."""
        self.ending.set()
        self.shutdown()
        self.server_close()


class _Patient(io.RawIOBase):
    """Reads the requests of a connection: at most MOST_REQUEST bytes of each, and for at most `seconds`."""

    def __init__(self, connection: socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Start to count the time and the bytes of the next request."""
        self._until = time.monotonic() + self._seconds
        self._left = MOST_REQUEST

    def readable(self) -> bool:
        """Returns true, because the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes into `buffer`; returns their number.

        Raises TimeoutError, which ends the connection, where the time or the bytes of the request are used up.
        """
        left = self._until - time.monotonic()
        if left <= 0 or not self._left:
            raise TimeoutError("the request is too slow or too large")
        self._connection.settimeout(left)
        try:
            count = self._connection.recv_into(memoryview(buffer)[: self._left])
        finally:
            self._connection.settimeout(self._seconds)
        self._left -= count
        return count


class _Lines(io.BufferedReader):
    """Reads a request. A line with a CR inside is refused: `email` would read it as two headers, and a proxy as one."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Returns the next line. Raises HTTPException, which refuses the request."""
        line = super().readline(size)
        if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
            raise HTTPException("a line has a CR inside")
        return line


class PageHandler(BaseHTTPRequestHandler, ABC):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "vgpu", ""
    timeout: ClassVar[float] = TIMEOUT_SECONDS
    # Head and body are two writes: the kernel would keep the second one back for 40 ms.
    disable_nagle_algorithm = True
    server: PageServer

    @abstractmethod
    def foreign(self) -> str:
        """Returns the reason to refuse a request that is not from our page, as text; empty for one from our page."""

    @abstractmethod
    def reader(self) -> Reader | None:
        """Returns the page's entries that the sender of the request may read; None if the sender is not known."""

    @abstractmethod
    def lasts(self) -> bool:
        """True while the sender of this request may go on reading the stream."""

    def withheld(self) -> str:
        """Returns the reason why the known sender gets none of the server's answers; empty if the sender gets them."""
        return ""

    refusal = "log in"
    """The text for somebody who is not known."""

    def setup(self) -> None:
        """Shake hands if the connection has TLS, and bound the time and bytes of each request."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(self.timeout)
            self.request.do_handshake()
        super().setup()
        self._patient = _Patient(self.connection, self.timeout)
        self.rfile = _Lines(self._patient)

    def handle_one_request(self) -> None:
        """Read one request, and answer it."""
        self._patient.begin()
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head of a request; returns false if it was refused.

        A GET with a body is refused: nobody reads the body, and it would count as the next request of the connection.
        """
        if not super().parse_request():
            return False
        lengths = self.headers.get_all("Content-Length", [])
        if self.command != "POST" and (
            "Transfer-Encoding" in self.headers or any(each != "0" for each in lengths)
        ):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        return True

    def do_GET(self) -> None:
        """Answer a GET with a file of the page, the stream of changes, or one of the answers; else with an error."""
        if why := self.foreign():
            self.send_text(HTTPStatus.FORBIDDEN, why)
            return
        target = urlsplit(self.path)
        if target.path in self.server.files:
            content, body = self.server.files[target.path]
            self.send(HTTPStatus.OK, f"{content}; charset=utf-8", body)
        elif (reader := self.reader()) is None:
            self.send_text(HTTPStatus.UNAUTHORIZED, self.refusal)
        elif target.path == "/changes":
            self.stream(reader)
        elif (answer := self.server.answers.get(target.path)) is not None and (why := self.withheld()):
            self.send_text(HTTPStatus.FORBIDDEN, why)
        elif answer is not None:
            self._answer(answer, {key: values[-1] for key, values in parse_qs(target.query).items()})
        else:
            self.send_text(HTTPStatus.NOT_FOUND, "nothing is here")

    def body(self) -> Mapping[str, Any] | None:
        """Returns the JSON object in the body of a POST; None if the body is too large, or is no JSON object."""
        lengths = self.headers.get_all("Content-Length", [])
        media = self.headers.get_content_type()
        if len(lengths) != 1 or not lengths[0].isascii() or not lengths[0].isdigit() or len(lengths[0]) > 6:
            return None
        if int(lengths[0]) > MOST_BODY or media != "application/json" or "Transfer-Encoding" in self.headers:
            return None
        try:
            found = json.loads(self.rfile.read(int(lengths[0])))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def send_change(self, make: Callable[[], str]) -> None:
        """Make a change, and answer what was done; if the API server refuses it, answer with the server's own words."""
        try:
            status, text = HTTPStatus.OK, make()
        except ForbiddenError as error:
            status, text = HTTPStatus.FORBIDDEN, str(error)
        except VgpuError as error:
            status, text = HTTPStatus.CONFLICT, str(error)
        self.send_text(status, text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server names it
        """Log nothing: the address of a request may hold a pod's name, and nobody reads such a log."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse a request that is not HTTP or has another method; the answer repeats nothing of the request."""
        self.close_connection = True
        self.send_text(HTTPStatus(code), HTTPStatus(code).phrase)

    def from_elsewhere(self) -> str:
        """Returns the reason to refuse a request that another page made a browser send; empty if none did."""
        # `none` is the value if a person types the address, or opens it from a terminal.
        if self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            return ""
        # A link of another page may lead to the page itself, which has no data in it.
        leads = self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest")
        return "" if self.path == "/" and leads == ("navigate", "document") else "another page asks"

    def _answer(self, answer: Answer, query: Mapping[str, str]) -> None:
        try:
            status, found = HTTPStatus.OK, answer(query)
        except LookupError as error:
            status, found = HTTPStatus.NOT_FOUND, {"problem": str(error.args[0])}
        self.send(status, "application/json", json.dumps(found).encode())

    def stream(self, reader: Reader) -> None:
        """Send all entries, and then each changed entry, as server-sent events; refuses if too many pages are open.

        The stream ends when the browser disconnects, the server ends, or `lasts` is false.
        """
        if not self.server.streams.acquire(blocking=False):
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open: close one")
            return
        try:
            self.close_connection = True
            self._head(HTTPStatus.OK, "text/event-stream", {"Connection": "close"})
            self.server.readers.add(threading.get_ident())
            with suppress(OSError):
                self._follow(reader)
        finally:
            self.server.readers.discard(threading.get_ident())
            self.server.streams.release()

    def _follow(self, reader: Reader) -> None:
        version = 0
        while not self.server.ending.is_set() and self.lasts():
            changes = reader.since(version, ALIVE_SECONDS)
            version = changes.version
            anew = changes.anew and changes.version > 0
            message = bytearray(b"event: anew\ndata: 0\n\n" if anew else b"")
            part = list[str]()
            size = 0
            for text in changes.texts:
                if part and size + len(text) > MOST_BYTES:
                    self.wfile.write(message + _event(part))
                    # A client that reads slowly takes long for the entries of one turn.
                    if not self.lasts():
                        return
                    message.clear()
                    part, size = [], 0
                part.append(text)
                size += len(text)
            message += _event(part) if part else b": alive\n\n"
            self.wfile.write(message + (b"event: ready\ndata: 0\n\n" if anew else b""))

    def send(
        self, status: HTTPStatus, content: str, body: bytes, more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Send an answer with this status, type and body; `more` are further headers."""
        self._head(status, content, {"Content-Length": str(len(body)), **more})
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_text(self, status: HTTPStatus, text: str) -> None:
        """Send an answer whose body is one line of text."""
        more = {"Connection": "close"} if self.close_connection else {}
        self.send(status, "text/plain", f"{text}\n".encode(), more)

    def _head(self, status: HTTPStatus, content: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content, **_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()


def _event(texts: list[str]) -> bytes:
    """Returns a message with these entries of the page, in one line, because their JSON has no line breaks."""
    return f"event: change\ndata: [{','.join(texts)}]\n\n".encode()
