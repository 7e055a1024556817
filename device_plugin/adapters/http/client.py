"""An HTTP/1.1 client for one connection; llhttp parses the answers.

It is our own, because it is fast: to send one Binding, a general HTTP client takes several times as long as the
allocator takes to choose the pod's card.
"""

import math
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import httptools

PIECE = 1 << 16
Given = TypeVar("Given")
Got = TypeVar("Got")
# Errors without a whole answer: the request may have been carried out or not.
LOST = (OSError, httptools.HttpParserError)
# OpenSSL's reasons when the server answers in plain text.
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_EOF",
)


def lost_text(error: Exception) -> str:
    """Returns the reason why there is no answer, as text for people. `error` is one of the exceptions in LOST."""
    if isinstance(error, httptools.HttpParserError):
        return "it does not answer in HTTP: if it speaks TLS, its address begins with https://"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if any(word in reason for word in _NO_TLS):
            return "it does not speak TLS: perhaps its address begins with http://"
        return f"TLS fails: {reason.replace('_', ' ').lower() or error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return f"the host's name is not known: {error.strerror}"
    # A message of ours has no error number.
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


class Connection:
    """One HTTP connection to a server, for one request at a time. Any call may raise one of LOST."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A socket with a time-out makes twice the system calls, and after each the thread waits for Python's lock.
        connected.settimeout(0)
        self.status = 0
        self.complete = self.keeps = False
        self._socket = connected
        self._silence = self._deadline = math.inf
        self._poll = select.poll()
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._unasked = False

    @property
    def dropped(self) -> bool:
        """True if the server has closed the connection, or sent something without a request."""
        self._poll.register(self._socket, select.POLLIN)
        return bool(self._poll.poll(0))

    def ask(self, request: bytes, silence: float, deadline: float = math.inf) -> None:
        """Send a request and read the answer's head.

        `silence` is the longest time in seconds that the server may send nothing. A `deadline` on the monotonic clock
        replaces it: the server must have sent the whole answer by then, however it spreads its bytes.
        """
        self.complete = self.keeps = False
        self.status = 0
        self._silence, self._deadline = silence, deadline
        rest = memoryview(request)
        while rest:
            rest = rest[self._done(self._socket.send, rest, select.POLLOUT) :]
        while not self.status:
            self._receive()

    def body(self) -> Iterator[bytes]:
        """Yields the parts of the answer's body as they arrive."""
        while self._parts or not self.complete:
            if self._parts:
                parts, self._parts = self._parts, []
                yield b"".join(parts)
            else:
                self._receive()

    def interrupt(self) -> None:
        """Close the stream from another thread, so that its reader gets the end of the stream."""
        # Not the method of a TLS socket, which is for the thread that reads.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        # TLS may have decrypted more bytes than were asked for.
        if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            self._wait(select.POLLIN)
        data = self._done(self._socket.recv, PIECE, select.POLLIN)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:  # 101 Switching Protocols, which no request asks for
            raise ConnectionResetError("the server left HTTP") from error
        if self._unasked:
            raise ConnectionResetError("the server sent more than one answer")

    def _done(self, call: Callable[[Given], Got], given: Given, event: int) -> Got:
        """Returns the result of `call(given)` on the socket; the call is repeated until the socket is ready.

        `event` is the event to poll for; on a TLS socket, TLS itself says which event it needs.
        """
        while True:
            try:
                return call(given)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT)
            except BlockingIOError:
                self._wait(event)

    def _wait(self, event: int) -> None:
        left = self._silence if self._deadline == math.inf else self._deadline - time.monotonic()
        self._poll.register(self._socket, event)
        if left <= 0 or not self._poll.poll(left * 1000):
            raise TimeoutError("no whole answer in time")

    # llhttp calls these.

    def on_message_begin(self) -> None:
        """Note whether this answer begins after the end of the last one: no request asked for it then."""
        self._unasked = self.complete

    def on_headers_complete(self) -> None:
        """Note the status of the answer. Interim answers such as 100 Continue are skipped."""
        if self._parser.get_status_code() >= 200:
            self.status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """Keep a part of the answer's body, until `body` yields it."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Note the end of the answer, and whether the connection can be used again."""
        self.complete = self.status > 0
        self.keeps = self._parser.should_keep_alive()
