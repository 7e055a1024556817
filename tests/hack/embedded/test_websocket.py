"""Frames between a client and a server of ours; tests/contract holds both to the real ones."""

import socket
from collections.abc import Iterator

import pytest

from hack.embedded.websocket import MOST_BYTES, WebSocket

Pair = tuple[WebSocket, WebSocket]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.fixture
def pair(ends: tuple[socket.socket, socket.socket]) -> Iterator[Pair]:
    """A client and a server."""
    client, server = (
        WebSocket(end, end.makefile("rb"), masked=masked)
        for end, masked in zip(ends, (True, False), strict=True)
    )
    yield client, server
    client.close()
    server.close()


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65535, 65536, 100_001])
def test_a_message_of_any_length_arrives_both_ways(pair: Pair, length: int) -> None:
    message = bytes(index % 251 for index in range(length))
    for sender, receiver in (pair, pair[::-1]):
        sender.send(message)
        assert receiver.receive() == message


def test_what_clients_send_is_masked(ends: tuple[socket.socket, socket.socket], pair: Pair) -> None:
    pair[0].send(b"secret")
    frame = ends[1].recv(100)
    assert frame[:2] == bytes([0x82, 0x80 | 6])
    assert b"secret" not in frame


def test_a_ping_is_answered_and_parts_become_one_message(
    ends: tuple[socket.socket, socket.socket], pair: Pair
) -> None:
    client, _ = pair
    ends[1].sendall(b"\x02\x01a" + b"\x89\x02hi" + b"\x80\x01b")
    assert client.receive() == b"ab"
    pong = ends[1].recv(100)
    mask, content = pong[2:6], pong[6:]
    assert (pong[:2], bytes(a ^ b for a, b in zip(content, mask, strict=False))) == (
        bytes([0x8A, 0x82]),
        b"hi",
    )


def test_the_end_is_told(pair: Pair) -> None:
    pair[0].close()
    assert pair[1].receive() is None


def test_a_frame_beyond_the_limit_ends_the_connection(
    ends: tuple[socket.socket, socket.socket], pair: Pair
) -> None:
    ends[1].sendall(b"\x82\x7f" + (MOST_BYTES + 1).to_bytes(8, "big"))
    assert pair[0].receive() is None
