"""Reads HTTP requests with llhttp, which is strict and fast, and writes the answers of an application.

To parse a request in Python would take more time than the allocator's decision.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote

import httptools

from device_plugin.core.http_values import App, EarlyApp, HttpAnswer, HttpRequest

# Most bytes of a request's line and headers.
MOST_HEAD = 1 << 16
# Path and query of the targets that are asked for with every pod.
_TARGETS = {b"/filter": ("/filter", ""), b"/bind": ("/bind", "")}
_STATUS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class BadRequestError(Exception):
    """A malformed request; the text is the status line of the answer."""


@dataclass(slots=True)
class RawRequest:
    """One HTTP request as it is read. `headers` have lower-case names; after a `last` request the connection closes."""

    method: str = ""
    url: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    last: bool = True


class Reader:
    """Reads the requests of one connection: `feed` parses bytes, and `ready` holds the whole requests, in order."""

    def __init__(self, most_body: int) -> None:
        self.ready: deque[RawRequest] = deque()
        self.wants_continue = False
        """True while the client waits for permission to send the body."""
        self._most_body = most_body
        # Bytes outside of bodies, since the piece in which a request ended last, and bytes of bodies in the last piece.
        self._heads = self._bodies = 0
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    @property
    def received(self) -> int:
        """The number of bytes received of the incomplete request; 0 before its first byte.

        Bytes of its head that came in one piece with the end of the previous request are not counted.
        """
        return self._heads + self._length if self._under_way else 0

    @property
    def begun(self) -> tuple[RawRequest, int] | None:
        """The request whose body has arrived in part, with that part, and the length of the whole body in bytes.

        None if there is no such request, or the length is not known.
        """
        if not self._under_way or not 0 < self._length < self._declared:
            return None
        self._now.body = b"".join(self._parts)
        return self._now, self._declared

    def leave(self) -> None:
        """Leave out the rest of the request that has begun: the next bytes to parse are those of the next request."""
        self._parser = httptools.HttpRequestParser(self)
        self._heads = 0
        self._begin()

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes from the client. Raises BadRequestError for a malformed or too large request."""
        ready, self._bodies = len(self.ready), 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise BadRequestError("400 Bad Request") from error
        self._heads += len(data) - self._bodies
        if self._heads > MOST_HEAD:
            raise BadRequestError("431 Request Header Fields Too Large")
        if len(self.ready) > ready:
            self._heads = 0
        if max(self._length, self._declared) > self._most_body:
            raise BadRequestError("413 Content Too Large")

    @property
    def _declared(self) -> int:
        """The length of the body by the request's head; 0 if it is not known."""
        # llhttp has checked that it is a number. Python converts at most 4,300 digits, leading zeros included.
        digits = self._now.headers.get("content-length", "").lstrip("0") if self._headed else ""
        return int(digits or 0)

    # llhttp calls these.

    def on_message_begin(self) -> None:
        """Forget the parts of the previous request: a new one begins."""
        self._begin()
        self._under_way = True

    def on_url(self, part: bytes) -> None:
        """Append a part of the request's target."""
        self._now.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; the values of several headers of one name are joined with commas (RFC 9110)."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._now.headers.get(key)
        self._now.headers[key] = text if known is None else f"{known},{text}"

    def on_headers_complete(self) -> None:
        """Note the method, whether the connection stays open, and whether the client waits before it sends the body."""
        self._headed = True
        self._now.method = self._parser.get_method().decode("latin-1")
        self._now.last = not self._parser.should_keep_alive() or self._parser.get_http_version() != "1.1"
        self.wants_continue = self._now.headers.get("expect", "").lower() == "100-continue"

    def on_body(self, part: bytes) -> None:
        """Append a part of the request's body."""
        self._parts.append(part)
        self._length += len(part)
        self._bodies += len(part)

    def on_message_complete(self) -> None:
        """Add the whole request to `ready`."""
        self._now.body = b"".join(self._parts)
        self.wants_continue = self._under_way = False
        self.ready.append(self._now)

    def _begin(self) -> None:
        self._now = RawRequest()
        self._parts: list[bytes] = []
        self._length = 0
        self._headed = self._under_way = False


def answer(app: App, request: RawRequest) -> Sequence[bytes]:
    """Returns the application's answer as bytes, in pieces. Raises BadRequestError and the application's own errors."""
    return _answered(app(_decoded(request)), request)


def early_answer(app: EarlyApp, request: RawRequest, length: int) -> Sequence[bytes] | None:
    """Returns the answer to a request of which only a part of the body has arrived; None if the whole body is needed.

    `length` is the length of the whole body in bytes. Raises BadRequestError and the application's own errors.
    """
    given = app(_decoded(request), length)
    return None if given is None else _answered(given, request)


def _decoded(request: RawRequest) -> HttpRequest:
    known = _TARGETS.get(request.url)
    path, query = known if known is not None else _target(request.url)
    return HttpRequest(request.method, path, query, request.headers, request.body)


def _answered(given: HttpAnswer, request: RawRequest) -> Sequence[bytes]:
    body = [given.body.encode()] if isinstance(given.body, str) else given.body
    head = [
        f"HTTP/1.1 {_STATUS[given.status]}",
        f"Content-Type: {given.content}",
        *(f"{name}: {value}" for name, value in given.headers.items()),
        f"Content-Length: {sum(map(len, body))}",
    ]
    return _text(head, request, body)


def _target(url: bytes) -> tuple[str, str]:
    """Returns path, without escapes, and query of a request's target. Raises BadRequestError."""
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserError as error:
        raise BadRequestError("400 Bad Request") from error
    path = unquote((target.path or b"/").decode("latin-1"), "latin-1")
    return path, (target.query or b"").decode("latin-1")


def refusal(status: str) -> Sequence[bytes]:
    """Returns an answer with only a status, which announces that the connection closes."""
    return _text([f"HTTP/1.1 {status}", "Content-Length: 0"], RawRequest(), ())


def _text(head: list[str], request: RawRequest, body: Sequence[bytes]) -> Sequence[bytes]:
    if request.last:
        head.append("Connection: close")
    lines = "\r\n".join([*head, "\r\n"]).encode("latin-1")
    return [lines] if request.method == "HEAD" else [lines, *body]
