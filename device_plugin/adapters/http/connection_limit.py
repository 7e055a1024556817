"""Limits the clients of our server: a slow one ends at its deadline, and all together they cannot take every thread."""

import contextlib
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

# A call of /filter that names 20,000 nodes is received in one or two system calls, between which other threads run.
PIECE = 1 << 18
# Most pieces that are sent at once: the system takes 1,024.
MOST_PIECES = 64


class Client:
    """One connection, with deadlines for whole exchanges, however slowly the client sends and reads.

    The client has `seconds` to send its request, and as long to receive the answer. At most `piece` bytes are received
    in one system call.
    """

    def __init__(self, connection: socket.socket, address: str, seconds: float, piece: int = PIECE) -> None:
        connection.settimeout(None)
        # The system ends the wait for the first bytes of a request: poll(2) before each receive would take longer.
        limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        # An answer is sent in one piece: there is nothing to wait for before it is sent.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = address
        self._socket = connection
        self._seconds = seconds
        self._poll = select.poll()
        # One buffer for all calls: a new one of this size for each takes longer than the rest of the system call.
        self._buffer = memoryview(bytearray(piece))
        self.await_request()

    def await_request(self) -> None:
        """Start the time in which the client must send a whole request."""
        self.awaited = True
        self._begun = False
        self.deadline = time.monotonic() + self._seconds

    def receive(self, most: int = PIECE) -> memoryview:
        """Returns at most `most` received bytes, valid until the next call; none at the end of the connection.

        Raises TimeoutError at the deadline.
        """
        return self._buffer[: self._received(most, 0)]

    def discard(self, count: int) -> None:
        """Receive `count` bytes and drop them. Raises TimeoutError at the deadline, OSError if the connection ends.

        The system drops them without a copy (MSG_TRUNC, tcp(7)): the copy takes longer than the rest of the call.
        """
        while count:
            dropped = self._received(count, socket.MSG_TRUNC)
            if not dropped:
                raise ConnectionResetError("the client closed the connection")
            count -= dropped

    def _received(self, most: int, flags: int) -> int:
        """The number of bytes that were received into the buffer, at most `most`; 0 at the end of the connection."""
        most = min(most, len(self._buffer))
        while True:
            try:
                # The system's limit equals the deadline only for the first bytes.
                mode = flags | socket.MSG_DONTWAIT if self._begun else flags
                count = self._socket.recv_into(self._buffer, most, mode)
            except BlockingIOError:
                if not self._begun:
                    raise TimeoutError("timed out") from None
                self._wait(select.POLLIN)
            else:
                self._begun = True
                return count

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send all pieces, without a copy of them. Raises TimeoutError if the client does not receive them in time."""
        self.deadline = time.monotonic() + self._seconds
        rest = deque(memoryview(piece) for piece in pieces if piece)
        while rest:
            try:
                sent = self._socket.sendmsg(islice(rest, MOST_PIECES), (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                self.awaited = True
                self._wait(select.POLLOUT)
                continue
            while rest and sent >= len(rest[0]):
                sent -= len(rest.popleft())
            if sent:
                rest[0] = rest[0][sent:]

    def interrupt(self) -> None:
        """End the connection from another thread; the thread that reads or writes it then closes it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _wait(self, event: int) -> None:
        left = self.deadline - time.monotonic()
        self._poll.register(self._socket, event)
        if left <= 0 or not self._poll.poll(left * 1000):
            raise TimeoutError("timed out")


class ConnectionLimit:
    """At most `most` open connections, and at most `per_address` of one address. Safe from any thread.

    At the limit the idle connection with the earliest deadline is closed for the new one. A connection is idle until
    its client has sent a whole request; after that the client is answered.
    """

    def __init__(self, per_address: float, most: float) -> None:
        self._per_address = per_address
        self._most = most
        self._lock = threading.Lock()
        self._open: set[Client] = set()

    def admit(self, new: Client) -> bool:
        """Count a new connection; returns false if a limit is reached and no connection is idle.

        At a limit an idle connection is ended in favour of the new one.
        """
        with self._lock:
            same = [client for client in self._open if client.address == new.address]
            if not self._make_way(same, self._per_address) or not self._make_way(self._open, self._most):
                return False
            self._open.add(new)
            return True

    def leave(self, client: Client) -> None:
        """Stop counting a connection. Call it before the close: later another connection may have its descriptor."""
        with self._lock:
            self._open.discard(client)

    def close_idle(self) -> None:
        """Close the connections that have not sent a whole request."""
        with self._lock:
            for client in self._open:
                if client.awaited:
                    client.interrupt()

    def _make_way(self, some: Iterable[Client], most: float) -> bool:
        if len(clients := list(some)) < most:
            return True
        awaited = [client for client in clients if client.awaited]
        if not awaited:
            return False
        one = min(awaited, key=lambda client: client.deadline)
        self._open.discard(one)
        one.interrupt()
        return True
