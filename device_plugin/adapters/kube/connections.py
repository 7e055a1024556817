"""Keeps connections to the API server between requests. A failed request is not repeated."""

import math
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

from device_plugin.adapters.http.client import Connection, lost_text
from device_plugin.adapters.kube.endpoint import Endpoint

# Most idle connections that are kept; more are closed after their request.
KEPT = 32
# Characters that need no escape in a path or query (RFC 3986).
_SAFE = "/?:@!$&'()*+,;=%"


class Connections:
    """Reuses connections to one API server. Any thread may use it."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._url = urlsplit(endpoint.url)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline: float = math.inf
    ) -> tuple[int, bytearray]:  # fmt: skip
        """Send a request; returns status and body of the answer.

        Raises one of LOST, also if the whole answer is not there before `deadline` on the monotonic clock.
        """
        connection = self._taken()
        try:
            connection.ask(self._text(method, target, headers, body), self._timeout, deadline)
            # A list may have 100 MB: it is read into one buffer, so that it is in memory once.
            status, answer = connection.status, bytearray()
            for part in connection.body():
                answer += part
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return status, answer

    def stream(self, target: str, headers: Mapping[str, str], silence: float) -> Connection:
        """Send a GET; returns the connection, whose body is the answer. The caller closes it. Raises one of LOST."""
        connection = self._opened()
        try:
            connection.ask(self._text("GET", target, headers, None), silence)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the idle connections now, and the others once their requests are answered."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _text(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {self._url.path}{quote(target, _SAFE)} HTTP/1.1", f"Host: {self._url.netloc}"]
        lines += [f"{name}: {value}" for name, value in (*headers.items(), *self._endpoint.headers)]
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
            if connection.keeps and not self._closed and len(self._idle) < KEPT:
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
        """Returns the TLS settings. Files are read for each connection, because they are replaced from time to time."""
        ca, cert, key = self._endpoint.ca, self._endpoint.cert, self._endpoint.key
        with _named("certificate authority", ca):
            context = ssl.create_default_context(cafile=ca)
        if not self._endpoint.verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if cert:
            with _named("client certificate", ", ".join(filter(None, (cert, key)))):
                # An empty password: otherwise OpenSSL would ask for one at the terminal.
                context.load_cert_chain(cert, key, password="")
        return context


@contextmanager
def _named(kind: str, file: str | None) -> Iterator[None]:
    """A context that puts `kind` and the file's name into the text of an OSError that is raised within it."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{kind} {file}: {lost_text(error)}") from error
