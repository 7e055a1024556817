"""Serve a WSGI application, on cheroot: a well-kept server whose threads live in our process, beside the ledger."""

import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from cheroot.wsgi import Server as CherootServer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

# How long a client may be silent within a request or between two. Where strangers connect it must be short: each
# silent client holds up a thread, and so perhaps a probe.
SILENCE_SECONDS, STRANGERS_SECONDS = 10, 2


class _Cheroot(CherootServer):
    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Send what cheroot says to our log."""
        log.log(level, "%s", msg, exc_info=traceback)


class Server:
    """A running HTTP server; `port` is the real one where 0 was asked for."""

    def __init__(self, app: "WSGIApplication", host: str, port: int, threads: int, silence: int) -> None:
        self._server = _Cheroot(
            (host, port), app, numthreads=threads, request_queue_size=128, timeout=silence
        )
        self._server.prepare()
        self.port: int = self._server.bind_addr[1]
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
    app: "WSGIApplication", host: str, port: int, threads: int = 4, silence: int = SILENCE_SECONDS
) -> Server:
    """Serve `app` at once, in `threads` threads. Raises OSError if the address cannot be had."""
    return Server(app, host, port, threads, silence)


def address(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9400`, `[::1]:9400` or `:9400`. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{listen!r}: write an address as host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what ":9400" means everywhere
