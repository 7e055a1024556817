"""Serves the page on a loopback address: files, the stream of changes, and answers about one pod or card.

Only the person who started the server may read it. So every request must name our own address (against DNS rebinding)
and come from our own page, and all requests but those for the page's files need the token that the command prints. The
token is behind `#` in the address, which no browser sends; the page sends it in a header. Other users of the machine
can connect too: at the limit of connections, a connection without the token is closed for a new one.
"""

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from device_plugin.cli.ui.entries import PageEntries

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
# Most bytes of a message, unless one entry is larger: the page handles many small messages smoothly.
MOST_BYTES = 32 << 10
Answer = Callable[[Mapping[str, str]], object]
"""Returns the answer, for JSON, to the parameters of a request. Raises LookupError if the object does not exist."""


class PageServer(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1, at `port` or any free port. The browser must open `address`."""

    daemon_threads = True
    block_on_close = False
    # Most connections that wait to be accepted: a browser that is refused tries again only after a second.
    request_queue_size = 1024

    def __init__(self, entries: PageEntries, answers: Mapping[str, Answer], port: int = 0) -> None:
        """`answers` has the functions for paths such as `/why`. Raises OSError if the port cannot be used."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.entries = entries
        self.answers = answers
        self.token = secrets.token_urlsafe(32)
        self.port = int(self.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.address = f"http://127.0.0.1:{self.port}/#token={self.token}"
        self.files = {
            "/" if path.name == "index.html" else f"/{path.name}": (_TYPES[path.suffix], path.read_bytes())
            for path in PAGE.iterdir()
            if path.suffix in _TYPES
        }
        self.ending = threading.Event()
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.readers = set[int]()
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        # Connections that have not shown the token, oldest first.
        self._strangers: dict[socket, None] = {}
        self._strangers_lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or close it if there are too many."""
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
        """Note that the connection has shown the token or has ended, so that it is not closed for another one."""
        with self._strangers_lock:
            self._strangers.pop(request, None)

    def _drop_stranger(self) -> bool:
        """End the oldest connection that has not shown the token; returns false if there is none."""
        with self._strangers_lock:
            stranger = next(iter(self._strangers), None)
            if stranger is None:
                return False
            del self._strangers[stranger]
            with suppress(OSError):
                stranger.shutdown(SHUT_RDWR)
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a browser that has closed its connection."""

    def is_open(self) -> bool:
        """True while a browser reads the stream of changes."""
        return bool(self.readers)

    def close(self) -> None:
        """End every stream, and the server; `serve_forever` must run in another thread."""
        self.ending.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "vgpu", ""
    timeout = TIMEOUT_SECONDS
    # Head and body are two writes: the kernel would keep the second one back for 40 ms.
    disable_nagle_algorithm = True
    server: PageServer

    def do_GET(self) -> None:
        """Answer a GET."""
        if why := self._foreign():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", f"{why}\n".encode())
            return
        target = urlsplit(self.path)
        if target.path in self.server.files:
            content, body = self.server.files[target.path]
            self._send(HTTPStatus.OK, f"{content}; charset=utf-8", body)
        elif not self._known():
            self._send(
                HTTPStatus.UNAUTHORIZED, "text/plain", b"open the address that `vgpu ui` printed last\n"
            )
        elif target.path == "/changes":
            self._stream()
        elif (answer := self.server.answers.get(target.path)) is not None:
            self._answer(answer, {key: values[-1] for key, values in parse_qs(target.query).items()})
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"nothing is here\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server names it
        """Log nothing: the address of a request may hold a pod's name, and nobody reads it."""

    def _foreign(self) -> str:
        """Returns the reason to refuse a request that is not from our page, as text; empty for one from our page."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts or not self.path.startswith("/"):
            return "this address is not ours"
        if any(origin not in self.server.origins for origin in origins):
            return "another page asks"
        # `none` is the value if a person types the address, or opens it from a terminal.
        if self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            return ""
        # A link of another page, such as the file of --open, may lead to the page itself, which has no data in it.
        leads = self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest")
        return "" if self.path == "/" and leads == ("navigate", "document") else "another page asks"

    def _known(self) -> bool:
        given = self.headers.get("Authorization", "")
        known = hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode())
        if known:
            self.server.trust(self.connection)
        return known

    def _answer(self, answer: Answer, query: Mapping[str, str]) -> None:
        try:
            status, found = HTTPStatus.OK, answer(query)
        except LookupError as error:
            status, found = HTTPStatus.NOT_FOUND, {"problem": str(error.args[0])}
        self._send(status, "application/json", json.dumps(found).encode())

    def _stream(self) -> None:
        """Send all entries, and then each changed entry, as server-sent events, until the browser disconnects."""
        if not self.server.streams.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"too many pages are open: close one\n")
            return
        try:
            self.close_connection = True
            self._head(HTTPStatus.OK, "text/event-stream", {"Connection": "close"})
            self.server.readers.add(threading.get_ident())
            with suppress(OSError):
                self._follow()
        finally:
            self.server.readers.discard(threading.get_ident())
            self.server.streams.release()

    def _follow(self) -> None:
        version = 0
        while not self.server.ending.is_set():
            changes = self.server.entries.since(version, ALIVE_SECONDS)
            version = changes.version
            anew = changes.anew and bool(changes.texts)
            message = bytearray(b"event: anew\ndata: 0\n\n" if anew else b"")
            part = list[str]()
            size = 0
            for text in changes.texts:
                if part and size + len(text) > MOST_BYTES:
                    self.wfile.write(message + _event(part))
                    message.clear()
                    part, size = [], 0
                part.append(text)
                size += len(text)
            message += _event(part) if part else b": alive\n\n"
            self.wfile.write(message + (b"event: ready\ndata: 0\n\n" if anew else b""))

    def _send(self, status: HTTPStatus, content: str, body: bytes) -> None:
        self._head(status, content, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, content: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content, **_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()


def _event(texts: list[str]) -> bytes:
    """Returns a message with these entries, in one line, because their JSON has no line breaks."""
    return f"event: change\ndata: [{','.join(texts)}]\n\n".encode()
