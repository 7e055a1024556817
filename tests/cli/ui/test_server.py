"""The page's server answers only its own page, on its own address, and gives data only for the token."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse

import pytest

from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.ui import server as module
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.loopback import LoopbackServer
from device_plugin.cli.ui.server import PAGE
from device_plugin.kube.errors import ForbiddenError
from tests.deadline import eventually

# Connections of other users.
CROWD = 300
FILES = sorted(path.name for path in PAGE.iterdir())


def answer(query: Mapping[str, str]) -> object:
    if query.get("card") != "a&b":
        raise LookupError("this card is not shown")
    return {"values": [1, 2]}


@pytest.fixture
def entries() -> PageEntries:
    return PageEntries()


@pytest.fixture
def server(entries: PageEntries) -> Iterator[LoopbackServer]:
    made = LoopbackServer(entries, {"/use": answer})
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.close()
    thread.join()
    while OPENED:
        OPENED.pop().close()


# What a test has opened: a stream has no end at which it is closed by itself.
OPENED: list[HTTPConnection | HTTPResponse] = []


def known(server: LoopbackServer) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token}"}


def get(
    server: LoopbackServer, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    OPENED.append(connection)
    connection.request(method, path, headers=dict(headers or {}))
    response = connection.getresponse()
    OPENED.append(response)
    if response.getheader("Content-Length"):
        with closing(connection):
            response.text = response.read().decode()  # type: ignore[attr-defined]
    return response


def test_files_need_no_token_and_everything_else_does(server: LoopbackServer) -> None:
    assert get(server, "/").status == 200
    for name in FILES:
        response = get(server, "/" if name == "index.html" else f"/{name}")
        assert response.status == 200, name
        policy = response.getheader("Content-Security-Policy") or ""
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.getheader("Referrer-Policy") == "no-referrer"
        assert response.getheader("Set-Cookie") is None
    for path in (
        "/changes",
        "/use?card=a%26b",
        "/none",
        f"/?token={server.token}x/../changes",
        "/../server.py",
    ):
        status = get(server, path).status
        assert status == (200 if path.startswith("/?") else 401), path
    for token in ("", "Bearer ", "Bearer x", server.token, f"bearer {server.token}", "Bearer ü"):
        assert get(server, "/changes", {"Authorization": token.encode().decode("latin-1")}).status == 401
    assert get(server, "/none", known(server)).status == 404


def test_the_token_is_new_each_time_and_stands_where_no_browser_sends_it(server: LoopbackServer) -> None:
    with closing(LoopbackServer(PageEntries(), {}).socket):
        pass
    other = LoopbackServer(PageEntries(), {})
    other.server_close()
    assert other.token != server.token
    assert len(server.token) >= 43
    assert server.address == f"http://127.0.0.1:{server.port}/#token={server.token}"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example.com:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "localhost.:{port}"},
        {"Host": "127.0.0.1:{port}@example.com"},
        {"Host": "user@127.0.0.1:{port}"},
        {"Host": "127.0.0.1:{port} "},
        {"Host": "127.0.0.1:{port},example.com"},
        {"Host": "0:{port}"},
        {"Host": "[::1]:{port}"},
        {"Host": ""},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1:{port}.example.com"},
        {"Origin": "http://example.com http://127.0.0.1:{port}"},
        {"Origin": "file://"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "document"},
    ],
    ids=str,
)
def test_another_page_and_another_name_of_this_machine_get_nothing(
    server: LoopbackServer, headers: dict[str, str]
) -> None:
    sent = {key: value.format(port=server.port) for key, value in headers.items()}
    for path in ("/", "/changes", "/use?card=a%26b"):
        assert get(server, path, {**known(server), **sent}).status == 403


def test_a_link_leads_to_the_page_and_to_nothing_else(server: LoopbackServer) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert get(server, "/", link).status == 200
    for path in ("/main.js", "/changes", "/use?card=a%26b"):
        assert get(server, path, {**known(server), **link}).status == 403


def test_our_own_page_is_heard_by_both_names(server: LoopbackServer) -> None:
    for name in ("127.0.0.1", "localhost"):
        own = {"Host": f"{name}:{server.port}", "Origin": f"http://{name}:{server.port}"}
        sent = {**known(server), **own, "Sec-Fetch-Site": "same-origin"}
        response = get(server, "/use?card=a%26b", sent)
        assert (response.status, json.loads(response.text)) == (200, {"values": [1, 2]})  # type: ignore[attr-defined]
    assert get(server, "/use?card=b", known(server)).status == 404


@pytest.mark.parametrize(
    "lines",
    [
        ["GET / HTTP/1.1"],
        ["GET / HTTP/1.1", "Host: 127.0.0.1:{port}", "Host: example.com"],
        ["GET / HTTP/1.1", "Host: example.com", "Host: 127.0.0.1:{port}"],
        ["GET http://example.com/ HTTP/1.1", "Host: 127.0.0.1:{port}"],
        [
            "GET / HTTP/1.1",
            "Host: 127.0.0.1:{port}",
            "Origin: http://127.0.0.1:{port}",
            "Origin: http://example.com",
        ],
    ],
    ids=str,
)
def test_a_request_of_which_more_than_one_can_be_meant_gets_nothing(
    server: LoopbackServer, lines: list[str]
) -> None:
    text = "\r\n".join([*lines, f"Authorization: Bearer {server.token}", "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(text.format(port=server.port).encode())
        with connection.makefile("rb") as answer:
            assert b" 403 " in answer.readline()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_nothing_can_be_changed(server: LoopbackServer, method: str) -> None:
    assert get(server, "/changes", known(server), method).status == 501


def post(server: LoopbackServer, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    with closing(connection):
        sent = {"Content-Type": "application/json", **headers}
        connection.request("POST", path, json.dumps(body), sent)
        response = connection.getresponse()
        return response.status, response.read().decode().strip()


def test_a_change_needs_the_token_and_our_own_page(server: LoopbackServer) -> None:
    made: list[object] = []

    def change(wanted: Mapping[str, object]) -> str:
        made.append(wanted)
        if wanted.get("name") == "forbidden":
            raise ForbiddenError("you may not", 403, "Forbidden")
        if wanted.get("name") == "held":
            raise EngineError("it is held")
        return "done"

    own = {"Origin": f"http://127.0.0.1:{server.port}", **known(server)}
    wanted = {"action": "stop", "name": "train"}
    assert post(server, "/change", wanted, own) == (
        404, "the page makes no changes: start vgpu ui with --allow-changes",
    )  # fmt: skip
    server.change = change
    for missing, headers in (
        ("the token", {**own, "Authorization": "Bearer x"}),
        ("an Origin", known(server)),
        ("our Origin", {**own, "Origin": "http://127.0.0.1:1"}),
        ("our own page", {**own, "Sec-Fetch-Site": "same-site"}),
    ):
        assert post(server, "/change", wanted, headers)[0] in (401, 403), missing
    assert post(server, "/other", wanted, own)[0] == 404
    assert post(server, "/change", ["stop"], own)[0] == 400
    assert made == []
    assert post(server, "/change", wanted, own) == (200, "done")
    assert post(server, "/change", {**wanted, "name": "forbidden"}, own) == (
        403,
        "you may not (403 Forbidden)",
    )
    assert post(server, "/change", {**wanted, "name": "held"}, own) == (409, "it is held")


def messages(response: HTTPResponse) -> Iterator[tuple[str, object]]:
    event = ""
    while line := response.readline().decode().rstrip("\n"):
        if line == ": alive":
            assert response.readline() == b"\n"
            continue
        event = line.removeprefix("event: ")
        data = response.readline().decode().removeprefix("data: ")
        assert response.readline() == b"\n"
        yield event, json.loads(data)


def test_the_stream_sends_all_and_then_what_changes(server: LoopbackServer, entries: PageEntries) -> None:
    nodes = {f"n{i}": "x" * 1000 for i in range(100)}
    entries.put("node", nodes)
    stream = messages(get(server, "/changes", known(server)))
    assert next(stream) == ("anew", 0)
    got: list[list[object]] = []
    while (message := next(stream))[0] == "change":
        part = message[1]
        assert isinstance(part, list)
        assert sum(len(json.dumps(each)) for each in part) <= module.MOST_BYTES
        got += part
    assert (message[0], got) == ("ready", [["node", name, text] for name, text in nodes.items()])
    entries.put("node", {"n7": "new\n\ndata: 1", "n8": None})
    assert next(stream) == ("change", [["node", "n7", "new\n\ndata: 1"], ["node", "n8", None]])


def test_streams_are_bounded(
    server: LoopbackServer, entries: PageEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries.put("node", {"n1": 1})
    streams = [get(server, "/changes", known(server)) for _ in range(module.MOST_STREAMS)]
    assert {stream.status for stream in streams} == {200}
    assert get(server, "/changes", known(server)).status == 503
    # A closed page gives its place back once the server next writes to it.
    monkeypatch.setattr(module, "ALIVE_SECONDS", 0.01)
    streams.pop().close()

    def again() -> bool:
        entries.put("node", {"n1": object.__hash__(object())})
        response = get(server, "/changes", known(server))
        streams.append(response)
        return response.status == 200

    assert eventually(again, 20)


def test_connections_without_the_token_make_room(server: LoopbackServer, entries: PageEntries) -> None:
    entries.put("node", {"n1": 1})
    stream = messages(get(server, "/changes", known(server)))
    strangers = [_connected(server) for _ in range(2 * module.MOST_CONNECTIONS)]
    assert get(server, "/use?card=a%26b", known(server)).status == 200
    assert _ended(strangers[0])
    entries.put("node", {"n1": 2})
    assert ("change", [["node", "n1", 2]]) in stream
    for connection in strangers:
        connection.close()


def test_connections_with_the_token_are_bounded(server: LoopbackServer) -> None:
    pages = [_connected(server) for _ in range(module.MOST_CONNECTIONS)]
    for page in pages:
        page.request("GET", "/use?card=a%26b", headers=known(server))
        assert page.getresponse().read()
    assert not _reached(server)
    pages.pop().close()
    assert eventually(lambda: _reached(server), 20)
    for page in pages:
        page.close()


def test_a_crowd_of_connections_and_guesses_of_the_token_cost_a_page_nothing(
    server: LoopbackServer, entries: PageEntries
) -> None:
    entries.put("node", {"n1": 1})
    stream = messages(get(server, "/changes", known(server)))
    crowd = [_connected(server) for _ in range(CROWD)]
    guess = _connected(server)
    for number in range(200):
        guess.request("GET", "/changes", headers={"Authorization": f"Bearer {number}{server.token[4:]}"})
        answer = guess.getresponse()
        assert (answer.status, len(answer.read()) < 100) == (401, True)
    entries.put("node", {"n1": 2})
    assert ("change", [["node", "n1", 2]]) in stream
    assert threading.active_count() < module.MOST_CONNECTIONS + 20
    for connection in (guess, *crowd):
        connection.close()


def test_a_browser_that_never_reads_gives_its_place_back(
    server: LoopbackServer, entries: PageEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.PageHandler, "timeout", 0.2)
    entries.put("node", {f"n{i}": "x" * 10_000 for i in range(2000)})
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        host = f"GET /changes HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        connection.sendall(f"{host}Authorization: Bearer {server.token}\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 200", "no more of its stream is read"
        assert eventually(lambda: not server.is_open(), 60)


def test_a_request_that_comes_slowly_ends(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.PageHandler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(1) == b""


def _connected(server: LoopbackServer) -> HTTPConnection:
    made = HTTPConnection("127.0.0.1", server.port, timeout=20)
    made.connect()
    return made


def _ended(connection: HTTPConnection) -> bool:
    """True if the server has closed the connection."""
    try:
        return connection.sock.recv(1) == b""
    except ConnectionError:
        return True


def _reached(server: LoopbackServer) -> bool:
    try:
        return get(server, "/").status == 200
    except ConnectionError:
        return False
