"""Serve a WSGI application, on cheroot: a well-kept server whose threads live in our process, beside the ledger."""

import ipaddress
import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from cheroot.wsgi import Server as CherootServer

from device_plugin.adapters.http_clients import Connection, Guests

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

# How long a client may take to send a request, to receive the answer, and to think between two. Where strangers connect
# it must be short: each client that we wait for holds up a thread, and so perhaps a probe.
SILENCE_SECONDS, STRANGERS_SECONDS = 10, 2
# What strangers may send: more would fill our memory before it is refused.
STRANGERS_BYTES = 64 << 10


class _Cheroot(CherootServer):
    ConnectionClass = Connection
    max_request_header_size = STRANGERS_BYTES
    guests: Guests

    def process_conn(self, conn: Connection) -> None:
        """Let a worker take the connection, unless it is new and one too many."""
        if not conn.seen:
            conn.seen = True
            conn.socket.address = conn.remote_addr
            if not self.guests.admit(conn.socket):
                conn.close()
                return
        super().process_conn(conn)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Send what cheroot says to our log."""
        log.log(level, "%s", msg, exc_info=traceback)


class Server:
    """A running HTTP server; `port` is the real one where 0 was asked for."""

    def __init__(
        self,
        app: "WSGIApplication",
        host: str,
        port: int,
        threads: int,
        silence: int,
        per_address: int | None,
    ) -> None:
        self._server = _Cheroot(
            (host, port), app, numthreads=threads, request_queue_size=128, timeout=silence
        )
        self._server.prepare()
        bound, self.port = self._server.bind_addr[:2]
        if per_address is None and not ipaddress.ip_address(bound).is_loopback:
            per_address = max(threads // 4, 2)
        if per_address is not None:
            self._server.max_request_body_size = STRANGERS_BYTES
        # One thread always finds those that need no waiting for.
        self._server.guests = Guests(per_address, threads - 1)
        self._thread = threading.Thread(target=self._server.serve, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and wait for requests that run."""
        self._server.stop()
        self._thread.join()


def serve(
    app: "WSGIApplication",
    host: str,
    port: int,
    threads: int = 4,
    silence: int = SILENCE_SECONDS,
    per_address: int | None = None,
) -> Server:
    """Serve `app` at once, in `threads` threads. Raises OSError if the address cannot be had.

    One address has at most `per_address` connections. By default it is a quarter of the threads, and on a loopback
    address any number: only our own programs connect there.
    """
    return Server(app, host, port, threads, silence, per_address)


def address(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9400`, `[::1]:9400` or `:9400`. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{listen!r}: write an address as host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what ":9400" means everywhere
