"""Loads from an agent's /metrics: a real one, and others that are slow, large or talk nonsense."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from device_plugin.adapters import agents
from device_plugin.adapters.agents import read_loads, read_progress
from device_plugin.adapters.http import server as http
from device_plugin.adapters.metrics import Exposition
from device_plugin.adapters.probes import probes
from device_plugin.core.contract.metrics import CARD, SLICE, Reading
from device_plugin.core.jobs.progress import MOST, Progress, ProgressReport
from device_plugin.core.loads import Load
from device_plugin.node.stages.meter import CHECKPOINTS, PROGRESS_DONE, PROGRESS_GOAL
from tests.exposed import reading

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does other things beside may answer late."""
    monkeypatch.setattr(agents, "SECONDS", 60.0)


def readings() -> list[Reading]:
    def cards(name: str, **values: float) -> Reading:
        return reading(name, [(("n1", f"GPU-{key}"), value) for key, value in values.items()], CARD)

    used = [(("n1", "GPU-a", "default", 'a"b}', "main"), GIB)]
    return [
        cards("vgpu_card_memory_bytes", a=16 * GIB, b=16 * GIB, c=16 * GIB, d=0),
        cards("vgpu_card_memory_used_bytes", a=4 * GIB, b=20 * GIB, d=GIB),
        cards("vgpu_card_busy_ratio", a=0.25),
        reading("vgpu_slice_memory_used_bytes", used, SLICE),
    ]


def test_what_a_real_agent_exports_is_read() -> None:
    app = probes(lambda: "", lambda: "", Exposition(readings))
    with http.Server(app, "127.0.0.1:0", silence=http.UNTRUSTED_SECONDS) as server:
        found = read_loads(f"127.0.0.1:{server.port}")
    assert found == {"GPU-a": Load(0.25, 0.25), "GPU-b": Load(1.0)}, "c does not say, d has no memory"


def test_what_programs_say_is_read_from_what_a_real_agent_exports() -> None:
    a, b, c = (
        ("n1", "default", "train-0-x", "main"),
        ("n1", "team", "a", "b"),
        ("n1", "default", "c", "main"),
    )
    exported = [
        Reading(PROGRESS_DONE, [(a, 120000), (b, 7), (c, 5)]),
        Reading(PROGRESS_GOAL, [(a, 1281167), (b, 10), (c, MOST)]),
        Reading(CHECKPOINTS, [(a, 2), (("n1", "default", "saves", "main"), MOST)]),
    ]
    app = probes(lambda: "", lambda: "", Exposition(lambda: exported))
    with http.Server(app, "127.0.0.1:0", silence=http.UNTRUSTED_SECONDS) as server:
        found = read_progress(f"127.0.0.1:{server.port}")
    assert found == {
        ("default", "train-0-x", "main"): ProgressReport(Progress(120000, 1281167), 2),
        ("team", "a", "b"): ProgressReport(Progress(7, 10)),
        ("default", "c", "main"): ProgressReport(Progress(5, MOST)),
        ("default", "saves", "main"): ProgressReport(None, MOST),
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("vgpu_progress_done{%s} 5.0",), None),
        (("vgpu_progress_goal{%s} 5.0",), None),
        (("vgpu_progress_done{%s} 7.0", "vgpu_progress_goal{%s} 5.0"), Progress(5, 5)),
        (("vgpu_progress_done{%s} 0.0", "vgpu_progress_goal{%s} 0.0"), None),
        (("vgpu_progress_done{%s} 1.0", "vgpu_progress_goal{%s} 1000000000000001.0"), None),
        (("vgpu_progress_done{%s} nan", "vgpu_progress_goal{%s} inf"), None),
        (("vgpu_progress_done{%s} -1.0", "vgpu_progress_goal{%s} 1e400"), None),
        (("vgpu_progress_done{%s} 1.5", "vgpu_progress_goal{%s} 2.0"), None),
    ],
)
def test_progress_that_lies_is_clamped_or_no_news(lines: tuple[str, ...], expected: Progress | None) -> None:
    labels = 'node="n1",namespace="default",pod="a",container="main"'
    text = "".join(f"{line % labels}\n" for line in lines)
    with answering(lambda connection: connection.sendall(framed(text))) as address:
        found = read_progress(address)
    assert found.get(("default", "a", "main"), ProgressReport()).progress == expected


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                with suppress(OSError):  # the client leaves when it has had enough
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    thread.join(60)
    assert not thread.is_alive()


def framed(text: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def dripping(connection: socket.socket) -> None:
    """A byte now and then, so that no single wait is long."""
    connection.settimeout(0.05)
    for byte in b"HTTP/1.0 200 OK\r\nX: " + b"x" * 1000:
        connection.sendall(bytes([byte]))
        try:
            if not connection.recv(1):
                return
        except TimeoutError:
            continue


@pytest.mark.parametrize("answer", [silent, dripping])
def test_a_slow_agent_ends_at_the_deadline(
    answer: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No single wait of the one that drips is as long: without a deadline for the whole it would be read to its end."""
    monkeypatch.setattr(agents, "SECONDS", 1.0)
    with answering(answer) as address, pytest.raises(TimeoutError):
        read_loads(address)


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"#" * (1 << 16))


def test_an_endless_answer_is_cut_off() -> None:
    with (
        answering(endless) as address,
        pytest.raises(ValueError, match=f"longer than {agents.MOST_BYTES} bytes"),
    ):
        read_loads(address)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\nno", "status 503"),
        (framed('vgpu_card_memory_bytes{card="a"} 1e\n'), "could not convert"),
    ],
)
def test_what_is_no_answer_is_said(answer: bytes, says: str) -> None:
    with (
        answering(lambda connection: connection.sendall(answer)) as address,
        pytest.raises(ValueError, match=says),
    ):
        read_loads(address)


@pytest.mark.parametrize(
    "line",
    [
        "vgpu_card_memory_used_bytes{" + 'card="x",' * 100_000,
        "vgpu_card_memory_used_bytes{" + 'card="' * 150_000,
        'vgpu_card_memory_used_bytes{card="' + "x" * 1_000_000,
        'vgpu_card_busy_ratio{card="a"} ' + "9" * 1_000_000,
        'vgpu_card_memory_bytes{card="a"} 1e999\nvgpu_card_memory_used_bytes{card="a"} 1e999\n',
    ],
)
def test_a_hostile_text_costs_little_and_gives_nothing_wrong(line: str) -> None:
    text = framed(line[: agents.MOST_BYTES])
    with answering(lambda connection: connection.sendall(text)) as address:
        begin = time.process_time()
        found = read_loads(address)
        assert time.process_time() - begin < 1.0
    assert all(0 <= load.memory <= 1 for load in found.values())


def test_of_more_cards_than_a_node_can_have_the_first_are_read() -> None:
    lines = "".join(
        f'vgpu_card_memory_bytes{{card="{i}"}} 4\nvgpu_card_memory_used_bytes{{card="{i}"}} 1\n'
        for i in range(500)
    )
    with answering(lambda connection: connection.sendall(framed(lines))) as address:
        assert set(read_loads(address)) == {str(i) for i in range(64)}


def test_an_answer_that_is_cut_short_or_leaves_http_is_an_oserror() -> None:
    leaves = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    for answer in (b"", framed("text")[:-1], leaves):
        with answering(lambda connection, a=answer: connection.sendall(a)) as address, pytest.raises(OSError):  # type: ignore[misc]  # noqa: PT011
            read_loads(address)


def test_nobody_there_is_an_oserror() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(OSError):  # noqa: PT011 - refused, whichever way the kernel says it
        read_loads(address)
