"""HTTP clients that may mean ill: a slow one ends at its deadline, and together they cannot take every thread."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cheroot.server import HTTPConnection

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class ClientSocket(socket.socket):
    """A client's socket that waits so long for a whole exchange, however the client spreads its bytes.

    The client has `patience` seconds to send its request, and as long again to take the answer.
    """

    guests: "Guests"
    address = ""
    patience = 0.0
    idle = False
    """It has been answered, and we wait for its next request."""
    deadline = 0.0
    _answering = False

    def begin(self) -> None:
        """An exchange begins."""
        self.idle = self._answering = False
        self.deadline = time.monotonic() + self.patience

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int = 0, flags: int = 0) -> int:
        """Read what there is. Raises TimeoutError at the deadline."""
        receive = super().recv_into
        return self._patiently(lambda: receive(buffer, nbytes, flags))

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        """Write what the client takes. Raises TimeoutError at the deadline."""
        if not self._answering:
            self._answering = True
            self.deadline = time.monotonic() + self.patience
        transmit = super().send
        return self._patiently(lambda: transmit(data, flags))

    def _patiently(self, do: Callable[[], int]) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            return do()
        self.settimeout(left)
        self.guests.wait(self)
        try:
            return do()
        finally:
            self.guests.go_on(self)


class Connection(HTTPConnection):
    """A connection of cheroot's over a ClientSocket. The server's `guests` learn when it closes."""

    seen = False

    def __init__(self, server: Any, sock: socket.socket, makefile: Any) -> None:
        client = ClientSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
        client.guests, client.patience = server.guests, server.timeout
        super().__init__(server, client, makefile)

    def communicate(self) -> bool:
        """Serve one request; True if the connection stays open."""
        self.socket.begin()
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]  # cheroot's
        finally:
            self.socket.idle = True

    def close(self) -> None:
        """Close it, for good."""
        self.socket.guests.leave(self.socket)
        super().close()


class Guests:
    """The open connections, and who must go for another. Safe from any thread.

    Of one address at most `per_address` are open, and at most `threads` threads of ours wait for clients (None: any
    number of both). The one with the earliest deadline goes, but only one that we wait for: whoever has sent a whole
    request is answered.
    """

    def __init__(self, per_address: int | None, threads: int) -> None:
        self._per_address = per_address
        self._threads = threads
        self._lock = threading.Lock()
        self._open: set[ClientSocket] = set()
        self._waiting: set[ClientSocket] = set()

    def admit(self, new: ClientSocket) -> bool:
        """Take in a new connection; False if it must be closed instead."""
        with self._lock:
            if self._per_address is not None:
                same = [c for c in self._open if c.address == new.address]
                if len(same) >= self._per_address:
                    awaited = [c for c in same if c.idle or c in self._waiting]
                    if not awaited:
                        return False
                    self._show_out(awaited)
            self._open.add(new)
            return True

    def leave(self, client: ClientSocket) -> None:
        """It closes. Until this returns, its file descriptor is its own."""
        with self._lock:
            self._open.discard(client)

    def wait(self, client: ClientSocket) -> None:
        """A thread begins to wait for it."""
        with self._lock:
            self._waiting.add(client)
            if self._per_address is not None and len(self._waiting) > self._threads:
                self._show_out(self._waiting)

    def go_on(self, client: ClientSocket) -> None:
        """The thread waits no longer."""
        with self._lock:
            self._waiting.discard(client)

    def _show_out(self, some: Iterable[ClientSocket]) -> None:
        one = min(some, key=lambda client: client.deadline)
        self._open.discard(one)
        self._waiting.discard(one)
        # Whoever reads from it or writes to it finds its end, and closes it.
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
