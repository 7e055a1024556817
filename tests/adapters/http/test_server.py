"""The HTTP server against clients that mean ill: who is still answered, and who is not waited for."""

import http.client
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import groupby

import pytest

from device_plugin.adapters.http.server import BEGINNING, STRANGERS_BYTES, Server
from device_plugin.core.http_values import HttpAnswer, HttpRequest
from tests.deadline import eventually

PATIENCE = 1
LARGE = 64 << 20  # more than the kernel keeps for a client that does not read
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


class App:
    """Answers `ok`, `/large` with much, and `/held` when `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        if request.path == "/held":
            self.inside.release()
            self.release.wait(120)
        return HttpAnswer([bytes(LARGE) if request.path == "/large" else b"ok"])


class EarlyApp:
    """Answers calls of /early by their beginning, and fails at those of /fault; it notes how much it was given.

    While `release` is not set, no call is answered.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.release = threading.Event()
        self.release.set()

    def __call__(self, request: HttpRequest, length: int) -> HttpAnswer | None:
        self.asked.append((request.path, len(request.body), length))
        self.release.wait(120)
        if request.path == "/fault":
            raise RuntimeError
        return HttpAnswer([b"early"]) if request.path == "/early" else None


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def server(app: App) -> Iterator[Server]:
    """As strangers find it: 16 threads, 4 connections each."""
    with Server(app, "127.0.0.1:0", threads=16, silence=PATIENCE, per_address=4) as server:
        yield server
        app.release.set()


@pytest.fixture
def patient(app: App) -> Iterator[Server]:
    """The same, but nobody is ended for being slow while a test lasts."""
    with Server(app, "127.0.0.1:0", threads=16, silence=120, per_address=4) as server:
        yield server
        app.release.set()


@pytest.fixture
def single(app: App) -> Iterator[Server]:
    """As our own programs find it, where nobody is counted."""
    with Server(app, "127.0.0.1:0", silence=PATIENCE) as server:
        yield server


def waits(server: Server) -> bool:
    """True while a thread of the server has a client."""
    return sum(thread.name == f"http-{server.port}" for thread in threading.enumerate()) > 1


def connect(server: Server, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 60, source_address=(source, 0))


def get(server: Server, source: str, path: str = "/healthz", wait: float = 60) -> int:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=wait, source_address=(source, 0))
    try:
        client.request("GET", path)
        answer = client.getresponse()
        answer.read()
        return answer.status
    finally:
        client.close()


def ended(client: socket.socket) -> bool:
    """True if the server has closed it; it may have said why."""
    client.settimeout(0)
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Drips:
    """Many clients, each a byte now and then and never a whole head; each comes back when it is thrown out."""

    def __init__(self, server: Server, sources: Iterable[str]) -> None:
        self._server, self._sources = server, list(sources)
        self._stop = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        with ExitStack() as stack:
            clients = {source: self._client(stack, source.partition("#")[0]) for source in self._sources}
            while not self._stop.wait(0.05):
                for source, client in clients.items():
                    try:
                        client.sendall(b"x")
                    except OSError:
                        clients[source] = self._client(stack, source.partition("#")[0])
                self.rounds += 1

    def _client(self, stack: ExitStack, source: str) -> socket.socket:
        client = stack.enter_context(connect(self._server, source))
        with suppress(OSError):
            client.sendall(HEAD + b"X-Drip: ")
        return client

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def drips(server: Server, sources: Iterable[str]) -> Iterator[Drips]:
    clients = Drips(server, sources)
    thread = threading.Thread(target=clients.run)
    thread.start()
    try:
        assert eventually(lambda: clients.rounds > 1, 60)
        yield clients
    finally:
        clients.stop()
        thread.join()


@pytest.mark.parametrize(
    "attackers", [[f"127.0.0.1#{n}" for n in range(40)], [f"127.0.1.{n}" for n in range(1, 41)]], ids=["one", "many"]
)  # fmt: skip
def test_probes_are_answered_whoever_drips(patient: Server, attackers: list[str]) -> None:
    """No client is ended for being slow: where all places are taken, one of those that drip is ended for the probe."""
    with drips(patient, attackers) as clients:
        for _ in range(20):
            before = clients.rounds
            assert get(patient, "127.0.0.2") == 200
            assert eventually(lambda: clients.rounds > before, 60)  # noqa: B023 - called at once


def test_who_shares_an_address_with_drips_is_answered_too(patient: Server) -> None:
    """A service's NodePort can give tenants the node's address, which is the kubelet's. It asks three times."""

    def probe() -> bool:
        with suppress(OSError, http.client.HTTPException):
            return get(patient, "127.0.0.1") == 200
        return False

    with drips(patient, [f"127.0.0.1#{n}" for n in range(6)]) as clients:
        for _ in range(10):
            before = clients.rounds
            assert probe() or probe() or probe()
            assert eventually(lambda: clients.rounds > before, 60)  # noqa: B023 - called at once


@pytest.mark.parametrize(
    "head",
    [HEAD, HEAD + b"Content-Length: 10000\r\n\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n2710\r\n"],
    ids=["head", "body", "chunks"],
)
def test_a_client_that_drips_is_not_waited_for(single: Server, head: bytes) -> None:
    with connect(single, "127.0.0.1") as client:
        client.sendall(head + (b"X-Drip: " if head == HEAD else b""))

        def drip() -> bool:
            with suppress(OSError):
                client.settimeout(60)
                client.sendall(b"x")
            return ended(client)

        assert eventually(drip, 60, 0.1), "its bytes would last for minutes"
        assert eventually(lambda: not waits(single), 60)
    assert get(single, "127.0.0.1") == 200


def test_a_client_that_does_not_take_its_answer_is_not_waited_for(single: Server) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", single.port))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")

        def sip() -> bool:
            """Takes a little, so that the server never waits long for one write."""
            client.recv(2048)
            return not waits(single)

        assert client.recv(1), "a thread sends the answer"
        assert eventually(sip, 60), "the answer would last for minutes"


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X: " + b"x" * 2 * STRANGERS_BYTES,
        b"GET /" + b"x" * 2 * STRANGERS_BYTES,
        HEAD + f"Content-Length: {STRANGERS_BYTES + 1}\r\n\r\n".encode(),
    ],
    ids=["headers", "path", "body"],
)
def test_more_than_strangers_may_send_is_refused_at_once(patient: Server, head: bytes) -> None:
    with connect(patient, "127.0.0.1") as client:
        with suppress(OSError):
            client.sendall(head)
        assert eventually(lambda: ended(client), 60)


def test_nobody_whom_the_application_works_for_must_go(patient: Server, app: App) -> None:
    with ThreadPoolExecutor(4) as pool:
        held = [pool.submit(get, patient, "127.0.0.1", "/held", 120) for _ in range(4)]
        for _ in held:
            assert app.inside.acquire(timeout=60)
        with connect(patient, "127.0.0.1") as fifth:
            assert eventually(lambda: ended(fifth), 60), "at once, not at its deadline"
        assert get(patient, "127.0.0.2") == 200
        app.release.set()
        assert [answer.result() for answer in held] == [200] * 4
    assert get(patient, "127.0.0.1") == 200


def test_who_was_closed_is_counted_no_more(server: Server) -> None:
    assert [get(server, "127.0.0.1") for _ in range(20)] == [200] * 20


def test_on_a_loopback_address_our_own_programs_have_any_number(app: App) -> None:
    with Server(app, "127.0.0.1:0") as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server, "127.0.0.1")) for _ in range(40)]
        for client in clients:
            client.sendall(HEAD + b"\r\n")
        assert all(client.recv(4096).startswith(b"HTTP/1.1 200") for client in clients)
        assert not [client for client in clients if ended(client)]


def test_where_strangers_connect_they_are_counted_without_being_told(app: App) -> None:
    with Server(app, ":0", threads=8) as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server, "127.0.0.1")) for _ in range(5)]
        assert eventually(lambda: sum(ended(client) for client in clients) == 3, 60)


@pytest.fixture
def early() -> EarlyApp:
    return EarlyApp()


@pytest.fixture
def hasty(app: App, early: EarlyApp) -> Iterator[Server]:
    """A server that may answer by the beginning of a request."""
    with Server(app, "127.0.0.1:0", silence=PATIENCE, early=early) as server:
        yield server


LONG = bytes(range(256)) * 4096


def post(client: http.client.HTTPConnection, path: str, body: bytes, **headers: str) -> bytes:
    client.request("POST", path, body, headers)
    return client.getresponse().read()


def answered(client: socket.socket) -> bytes:
    """Reads one answer from the server; returns its body."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    return answer.read()


def test_after_an_early_answer_the_rest_of_the_body_is_no_request(hasty: Server, early: EarlyApp) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", hasty.port, timeout=60)) as client:
        for path, answer in [
            ("/early", b"early"),
            ("/x", b"ok"),
            ("/early", b"early"),
            ("/fault", b"ok"),
        ] * 3:
            assert post(client, path, LONG) == answer
        paths = [path for path, _ in groupby(path for path, _, _ in early.asked)]
    assert paths == ["/early", "/x", "/early", "/fault"] * 3
    assert {length for _, _, length in early.asked} == {len(LONG)}
    assert max(given for _, given, _ in early.asked) < 2 * BEGINNING


def test_an_early_answer_is_asked_for_with_each_piece_of_the_beginning(
    hasty: Server, early: EarlyApp
) -> None:
    """A client in Go sends 4 KiB first, and the rest in one piece."""
    head = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    with connect(hasty, "127.0.0.1") as client:
        client.sendall(head)
        for piece in (1000, 4000, 15000):
            before = early.asked[-1][1] if early.asked else 0
            client.sendall(bytes(piece))
            assert eventually(lambda want=before + piece: early.asked[-1:] == [("/x", want, 200000)], 60)  # type: ignore[misc]
        client.sendall(bytes(180000))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert early.asked[-1][1] == 20000, "the beginning is over"


def test_only_a_body_of_known_length_that_is_incomplete_is_answered_early(
    hasty: Server, early: EarlyApp
) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", hasty.port, timeout=60)) as client:
        assert post(client, "/early", b"short") == b"ok"
        client.request("POST", "/early", iter([LONG, LONG]), encode_chunked=True)
        assert client.getresponse().read() == b"ok"
        assert early.asked == []
        assert post(client, "/early", LONG, Connection="close") == b"ok", "there is nothing to gain"


def test_a_client_that_does_not_send_the_rest_is_not_waited_for(hasty: Server, early: EarlyApp) -> None:
    """It gets its answer once it has sent all, because it may not read before."""
    head = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with connect(hasty, "127.0.0.1") as client:
        client.sendall(head + bytes(1000))
        assert eventually(lambda: early.asked == [("/early", 1000, 100000)], 60)
        assert eventually(lambda: ended(client), 60)
    with connect(hasty, "127.0.0.1") as client:
        client.sendall(head + bytes(1000))
    assert eventually(lambda: not waits(hasty), 60)


def test_a_request_sent_ahead_is_not_answered_before_the_one_in_front_of_it(hasty: Server) -> None:
    first = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
    second = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with connect(hasty, "127.0.0.1") as client:
        client.sendall(first + second + bytes(1000))
        assert answered(client) == b"ok"
        client.sendall(bytes(99000))
        assert answered(client) == b"early"


def test_a_call_for_which_an_early_answer_is_computed_is_answered_when_the_server_closes(
    app: App, early: EarlyApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("device_plugin.adapters.http.server.CLOSE_SECONDS", 0)
    early.release.clear()
    with Server(app, "127.0.0.1:0", early=early) as server, connect(server, "127.0.0.1") as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + bytes(100000))
        assert eventually(lambda: early.asked, 60)
        server.close()
        early.release.set()
        assert answered(client) == b"early"
        assert eventually(lambda: ended(client), 60), "it is the last request of the connection"
