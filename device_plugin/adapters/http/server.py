"""Serves an application over HTTP/1.1, each connection in a thread of this process, which holds the ledger."""

import contextlib
import ipaddress
import logging
import math
import re
import socket
import threading
from collections.abc import Sequence
from types import TracebackType

from device_plugin.adapters.http.connection_limit import PIECE, Client, ConnectionLimit
from device_plugin.adapters.http.requests import (
    BadRequestError,
    RawRequest,
    Reader,
    answer,
    early_answer,
    refusal,
)
from device_plugin.core.http_values import App, EarlyApp

log = logging.getLogger(__name__)

MOST_PORT = 65535
# Most connections of untrusted clients, each in a thread: a few stalled clients do not delay the kubelet's probes.
THREADS = 16
# Seconds in which a client must send a request, receive the answer, and begin its next request. They must be short
# where untrusted clients connect: each client that is waited for takes a thread, which a probe may need.
SILENCE_SECONDS, UNTRUSTED_SECONDS = 10, 2
# Bytes that clients may send: more would fill our memory before it is refused. A pod has at most 1.5 MiB in etcd, and
# 5,000 node names are 0.1 MiB; probes and scrapes have no body.
MOST_BYTES, STRANGERS_BYTES = 16 << 20, 64 << 10
# Bytes of a request within which an early answer is asked for, after each piece: its head, and the pod of a /filter.
BEGINNING = 16 << 10
# Seconds that running requests may take when the server closes, and seconds to wait when no client can be accepted.
CLOSE_SECONDS, AGAIN_SECONDS = 5.0, 0.1


class Server:
    """Serves `app` at `listen` until it is closed, each connection in a thread. `port` is the port that is in use.

    `early` answers a request as soon as the beginning of its body is enough; the rest of the body is dropped unread.
    `silence` is the number of seconds that a client has to send a request, and again to receive the answer.

    `per_address` is the largest number of connections of one client address, by default a quarter of the `threads`. On
    a loopback address, where only our own programs connect, there is no limit by default.
    """

    def __init__(
        self,
        app: App,
        listen: str,
        threads: int = THREADS,
        silence: int = SILENCE_SECONDS,
        per_address: int | None = None,
        early: EarlyApp | None = None,
    ) -> None:
        """Open the port, and accept connections from now on.

        Raises ValueError for a malformed address, OSError if it cannot be used.
        """
        host, port = address(listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server(
            (host, port), family=family, backlog=128, dualstack_ipv6=host == "::"
        )
        bound, self.port = self._listener.getsockname()[:2]
        self.address = f"{host}:{self.port}"
        if per_address is None and not ipaddress.ip_address(bound).is_loopback:
            per_address = max(threads // 4, 2)
        ours = per_address is None
        self._limit = ConnectionLimit(
            math.inf if per_address is None else per_address, math.inf if ours else threads
        )
        self._most_bytes = MOST_BYTES if ours else STRANGERS_BYTES
        self._app = app
        self._early = early
        self._silence = silence
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._acceptor = threading.Thread(target=self._accept, name=f"http-{self.port}", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and wait until running requests are answered, CLOSE_SECONDS for each at most."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._limit.close_idle()
        for thread in list(self._threads):
            thread.join(CLOSE_SECONDS)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, address = self._listener.accept()
                self._take(Client(connection, address[0], self._silence, min(PIECE, self._most_bytes)))
            except (OSError, RuntimeError) as error:
                if not self._closing.is_set():
                    # Out of file descriptors or threads: wait until other connections end.
                    log.warning("no client can be accepted: %s", error)
                    self._closing.wait(AGAIN_SECONDS)

    def _take(self, client: Client) -> None:
        """Serve the client in a new thread, or close its connection if too many are open.

        Raises RuntimeError if no thread can start.
        """
        if not self._limit.admit(client):
            client.close()
            return
        thread = threading.Thread(target=self._serve, args=(client,), name=self._acceptor.name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._leave(client, thread)
            raise

    def _serve(self, client: Client) -> None:
        try:
            # A client that is too slow, or closes the connection, gets no answer.
            with contextlib.suppress(OSError):
                self._exchange(client)
        finally:
            self._leave(client, threading.current_thread())

    def _leave(self, client: Client, thread: threading.Thread) -> None:
        self._limit.leave(client)
        client.close()
        self._threads.discard(thread)

    def _exchange(self, client: Client) -> None:
        reader = Reader(self._most_bytes)
        try:
            while request := self._next(client, reader):
                client.awaited = False
                client.send(self._answer(request))
                if request.last:
                    return
                client.await_request()
        except BadRequestError as error:
            client.send(refusal(str(error)))

    def _next(self, client: Client, reader: Reader) -> RawRequest | None:
        """Returns the client's next whole request; None if the client has closed the connection, or the server closes.

        Requests that can be answered by the beginning of their body are answered here, and not returned.
        """
        while not self._closing.is_set():
            if reader.ready:
                return reader.ready.popleft()
            begins = self._early is not None and reader.received < BEGINNING
            if not (data := client.receive(BEGINNING if begins else PIECE)):
                return None
            reader.feed(data)
            if reader.wants_continue:
                reader.wants_continue = False
                client.send([b"HTTP/1.1 100 Continue\r\n\r\n"])
            elif begins and not reader.ready:
                self._answer_early(client, reader)
        return None

    def _answer_early(self, client: Client, reader: Reader) -> None:
        """Answer the request whose body has begun, if the application does not need the rest of the body."""
        begun = reader.begun
        if self._early is None or begun is None or begun[0].last:
            return
        request, length = begun
        pieces: Sequence[bytes] | None = None
        # Its connection is not idle while the application runs.
        client.awaited = False
        try:
            pieces = early_answer(self._early, request, length)
        except Exception:
            # The whole request meets the same fault, and is answered.
            log.exception("%s %s failed", request.method, request.url)
        if pieces is None:
            client.awaited = True
            return
        client.discard(length - len(request.body))
        reader.leave()
        client.send(pieces)
        client.await_request()

    def _answer(self, request: RawRequest) -> Sequence[bytes]:
        try:
            return answer(self._app, request)
        except BadRequestError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.url)
            request.last = True
            return refusal("500 Internal Server Error")


def address(listen: str) -> tuple[str, int]:
    """Returns host and port of an address such as `127.0.0.1:9400`, `[::1]:9400` or `:9400`.

    Raises ValueError for another form.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not re.fullmatch("[0-9]+", port):
        raise ValueError(f"{listen!r} is no address: write host:port, such as 127.0.0.1:9400")
    if int(port) > MOST_PORT:
        raise ValueError(f"port {port} is out of range: write 0 to {MOST_PORT}")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what ":9400" means everywhere
