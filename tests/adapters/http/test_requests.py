"""Requests as clients may send them, in whatever pieces, and what is refused."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from device_plugin.adapters.http.requests import MOST_HEAD, BadRequestError, RawRequest, Reader, answer
from device_plugin.adapters.http.server import Server
from device_plugin.core.http_values import HttpAnswer, HttpRequest

POST = b"POST /filter?a=b HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
COUNTED = POST + b"Content-Length: 5\r\n\r\nabcde"
MOST = 1000


def echo(request: HttpRequest) -> HttpAnswer:
    """Answers what it was sent; `/fails` fails."""
    if request.path == "/fails":
        raise OSError("a defect")
    return HttpAnswer([request.body], headers={"X-Seen": f"{request.path} {request.query}"})


def read(*pieces: bytes) -> list[RawRequest]:
    reader = Reader(MOST)
    for piece in pieces:
        reader.feed(piece)
    return list(reader.ready)


@contextmanager
def connected() -> Iterator[socket.socket]:
    with (
        Server(echo, "127.0.0.1:0") as server,
        socket.create_connection(("127.0.0.1", server.port), 60) as client,
    ):
        yield client


def said(client: socket.socket) -> bytes:
    """All until the server closes."""
    return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("whole", [CHUNKED, COUNTED], ids=["chunked", "counted"])
def test_a_request_is_the_same_in_whatever_pieces_it_comes(whole: bytes, rng: random.Random) -> None:
    (expected,) = read(whole)
    assert (expected.method, expected.url, expected.body) == ("POST", b"/filter?a=b", b"abcde")
    assert not expected.last
    for _ in range(100):
        cuts = sorted(rng.randrange(len(whole)) for _ in range(rng.randint(1, 6)))
        pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert [r.body for r in read(*pieces)] == [b"abcde"]


def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    with connected() as client:
        client.sendall(COUNTED + CHUNKED + POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nz")
        answers = said(client).split(b"HTTP/1.1 ")[1:]
    assert [a.split(b"\r\n")[0] for a in answers] == [b"200 OK"] * 3
    assert [a.rpartition(b"\r\n\r\n")[2] for a in answers] == [b"abcde", b"abcde", b"z"]


def test_the_body_of_the_request_in_front_does_not_count_as_head() -> None:
    long = POST + b"Content-Length: 100000\r\n\r\n" + bytes(100000)
    for second, rest in [(COUNTED, b""), (COUNTED[:-3], COUNTED[-3:]), (COUNTED[:9], COUNTED[9:])]:
        reader = Reader(100000)
        reader.feed(long + second)
        reader.feed(rest)
        assert [len(request.body) for request in reader.ready] == [100000, 5]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 99 + b"\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nmore", "400 Bad Request"),
        (b"nonsense\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * MOST_HEAD + b"\r\n\r\n", "431 Request Header Fields Too Large"),
        (
            POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * MOST_HEAD,
            "431 Request Header Fields Too Large",
        ),
        (POST + b"Content-Length: 1001\r\n\r\n", "413 Content Too Large"),
        (
            POST + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001 + b"\r\n",
            "413 Content Too Large",
        ),
    ],
)
def test_what_is_not_http_or_too_much_is_refused(text: bytes, status: str) -> None:
    with pytest.raises(BadRequestError, match=f"^{status}$"):
        read(text)


def test_garbage_is_a_request_or_refused_and_nothing_else(rng: random.Random) -> None:
    for _ in range(500):
        damaged = bytearray(COUNTED + CHUNKED)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            for request in read(bytes(damaged)):
                assert b"".join(answer(echo, request)).startswith(b"HTTP/1.1 200 OK\r\n")
        except BadRequestError:
            continue


def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    with connected() as client:
        client.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abcde")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("version", [b"1.0", b"0.9"])
def test_an_old_client_gets_one_answer(version: bytes) -> None:
    with connected() as client:
        client.sendall(b"GET / HTTP/" + version + b"\r\nConnection: keep-alive\r\n\r\n")
        assert b"Connection: close\r\n" in said(client)


def test_a_head_request_gets_no_body() -> None:
    (request,) = read(COUNTED.replace(b"POST", b"HEAD"))
    assert b"".join(answer(echo, request)).endswith(b"Content-Length: 5\r\n\r\n")


def test_a_defect_is_answered_with_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with connected() as client:
        client.sendall(b"GET /fails HTTP/1.1\r\n\r\n")
        assert said(client).startswith(b"HTTP/1.1 500 ")
    assert "a defect" in caplog.text


@pytest.mark.parametrize("target", [b"/a%20b?c=%20", b"http://x/a%20b?c=%20"])
def test_a_target_is_split_and_its_path_decoded(target: bytes) -> None:
    (request,) = read(b"GET " + target + b" HTTP/1.1\r\n\r\n")
    assert b"X-Seen: /a b c=%20\r\n" in b"".join(answer(echo, request))


def test_a_length_with_thousands_of_zeros_is_a_number() -> None:
    (request,) = read(POST + b"Content-Length: " + b"0" * 9000 + b"5\r\n\r\nabcde")
    assert request.body == b"abcde"
