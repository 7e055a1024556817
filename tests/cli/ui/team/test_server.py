"""The page for a team against those who attack it: other sites, guessers, floods, and people who want others' names."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection
from typing import NamedTuple

import pytest

from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.ui import server as base
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.team import server as module
from device_plugin.cli.ui.team.changes import PersonalChanges
from device_plugin.cli.ui.team.proxy import SECRET_HEADER, ProxyLogin
from device_plugin.cli.ui.team.reviews import RefusedTokenError
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.server import TeamServer
from device_plugin.cli.ui.team.sessions import CHECK_SECONDS, LOGIN_BURST, MOST_TOKEN, Sessions
from device_plugin.cli.ui.team.visitor import Person

SECRET = "s" * 32
RIGHTS = {"anna": "team-a", "bert": "team-b"}


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    text: str


class Team:
    """The page for a team in which anna sees team-a, bert team-b, and carl everything.

    Each token is the name with `t-` before it.
    """

    def __init__(self, proxy: ProxyLogin | None = None, public_url: str = "") -> None:
        self.now = 1000.0
        self.refused = set[str]()
        self.entries = PageEntries()
        self.entries.put("about", {"cluster": {"read": True}})
        for of in ("team-a", "team-b"):
            self.entries.put(
                "waiting", {f"{of}/pod-of-{of}": {"namespace": of, "pod": f"pod-of-{of}", "text": "-"}}
            )
        self.sessions = Sessions(self._review, self._clock, session_seconds=3600, idle_seconds=600)
        rights = Rights(
            lambda person, space: (
                person.name == "carl"
                or (space.resource == "pods" and RIGHTS.get(person.name) == space.namespace)
            ),
            self._clock,
        )
        self.server = TeamServer(
            ("127.0.0.1", 0), self.entries, {"/use": lambda query: {"query": dict(query)}},
            sessions=self.sessions, rights=rights, clock=self._clock, proxy=proxy, public_url=public_url,
        )  # fmt: skip
        self.host = f"127.0.0.1:{self.server.port}"
        self.own = {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def _clock(self) -> float:
        return self.now

    def _review(self, token: str) -> Person:
        if not token.startswith("t-") or token in self.refused:
            raise RefusedTokenError("the API server does not accept this token")
        return Person(token.removeprefix("t-"))

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: str | None = None,
    ) -> Answer:
        with closing(HTTPConnection("127.0.0.1", self.server.port, timeout=20)) as connection:
            connection.request(method, path, headers=dict(headers or {}), body=body)
            answer = connection.getresponse()
            stream = answer.getheader("Content-Type") == "text/event-stream"
            text = "" if stream else answer.read().decode()
            return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, text)

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask(path, {**self.own, **(headers or {})}, "POST", json.dumps(body))

    def log_in(self, name: str) -> dict[str, str]:
        """The headers of a browser in which somebody has logged in."""
        answer = self.post("/login", {"token": f"t-{name}"})
        assert answer.status == 200, answer
        return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    def csrf(self, cookie: Mapping[str, str]) -> str:
        return str(json.loads(self.ask("/session", cookie).text)["csrf"])

    def stream(self, headers: Mapping[str, str]) -> str:
        """The first part of a stream, until all entries were sent."""
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            connection.sendall(f"GET /changes HTTP/1.1\r\nHost: {self.host}\r\n{lines}\r\n".encode())
            text = ""
            while "event: ready" not in text and (part := connection.recv(1 << 16)):
                text += part.decode()
            return text

    def end(self) -> None:
        self.server.close()
        self.thread.join()


@pytest.fixture
def team() -> Iterator[Team]:
    made = Team()
    yield made
    made.end()


def test_nothing_but_the_pages_files_is_open_without_a_login(team: Team) -> None:
    page = team.ask("/")
    assert page.status == 200
    assert '<html data-login="token" ' in page.text
    for path in ("/changes", "/session", "/use?node=n", "/day", "/why?pod=team-a/x", "/login", "/none"):
        assert team.ask(path).status == 401, path
    for cookie in ("vgpu=", "vgpu=x", "vgpu", ";;=", "other=1", "vgpu=" + "x" * 4000):
        assert team.ask("/changes", {"Cookie": cookie}).status == 401


def test_a_login_is_a_cookie_that_no_script_and_no_other_site_can_use(team: Team) -> None:
    answer = team.post("/login", {"token": "  Bearer t-anna\n"})
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert "t-anna" not in str(answer)
    cookie = {"Cookie": parts[0]}
    told = json.loads(team.ask("/session", cookie).text)
    assert told["user"] == "anna"
    assert parts[0].partition("=")[2] not in str(
        [team.ask(path, cookie) for path in ("/session", "/", "/use")]
    )


def test_only_who_sees_everything_gets_the_use_of_cards_over_time(team: Team) -> None:
    """The series of a card that somebody else's pod holds alone is that pod's use."""
    assert json.loads(team.ask("/use?node=n", team.log_in("carl")).text) == {"query": {"node": "n"}}
    answer = team.ask("/use?node=n", team.log_in("anna"))
    assert (answer.status, "all namespaces" in answer.text) == (403, True)


def test_behind_tls_the_cookie_is_for_tls_and_this_host_only() -> None:
    made = Team(public_url="https://vgpu.example.com")
    try:
        own = {"Host": "vgpu.example.com", "Origin": "https://vgpu.example.com"}
        answer = made.post("/login", {"token": "t-anna"}, own)
        name, *parts = answer.headers["set-cookie"].split("; ")
        assert name.startswith("__Host-vgpu=")
        assert "Secure" in parts
        assert made.ask("/session", {"Cookie": name, "Host": "vgpu.example.com"}).status == 200
        assert made.ask("/session", {"Cookie": name}).status == 403
        assert made.post("/login", {"token": "t-anna"}).status == 403
    finally:
        made.end()


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://{host}"},
        {"Origin": "http://{host}.example.com"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_another_site_can_neither_log_in_nor_out(team: Team, path: str, headers: dict[str, str]) -> None:
    cookie = team.log_in("anna")
    sent = {
        **cookie,
        "X-Vgpu-Csrf": team.csrf(cookie),
        **{k: v.format(host=team.host) for k, v in headers.items()},
    }
    answer = team.post(path, {"token": "t-bert"}, sent)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    assert team.ask("/session", cookie).status == 200


def test_a_form_of_another_site_is_no_login(team: Team) -> None:
    """A form can send neither JSON nor, in old browsers, an Origin."""
    for headers in (
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
    ):
        sent = {**team.own, **headers}
        assert team.ask("/login", sent, "POST", '{"token": "t-anna"}').status == 400
    assert (
        team.ask("/login", {"Content-Type": "application/json"}, "POST", '{"token": "t-anna"}').status == 403
    )
    assert team.ask("/login", team.own, "OPTIONS").status == 501


def test_a_page_cannot_be_framed_and_loads_nothing_from_elsewhere(team: Team) -> None:
    for path in ("/", "/main.js", "/session"):
        headers = team.ask(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert team.ask("/", framed).status == 403
    link = {**framed, "Sec-Fetch-Dest": "document"}
    assert team.ask("/", link).status == 200
    assert team.ask("/changes", {**link, **team.log_in("anna")}).status == 403


def test_a_session_that_was_ended_cannot_be_replayed(team: Team) -> None:
    cookie = team.log_in("anna")
    assert team.post("/logout", {}, cookie).status == 403, "without the session's secret"
    assert team.post("/logout", {}, {**cookie, "X-Vgpu-Csrf": team.csrf(team.log_in("anna"))}).status == 403
    answer = team.post("/logout", {}, {**cookie, "X-Vgpu-Csrf": team.csrf(cookie)})
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (200, True)
    for path in ("/session", "/changes", "/use"):
        assert team.ask(path, cookie).status == 401


def test_a_login_never_takes_over_a_name_that_a_browser_brings(team: Team) -> None:
    before = {"Cookie": "vgpu=chosen-by-an-attacker"}
    answer = team.post("/login", {"token": "t-anna"}, before)
    assert "chosen-by" not in answer.headers["set-cookie"]
    assert team.ask("/session", before).status == 401
    both = {"Cookie": f"vgpu=other; {answer.headers['set-cookie'].partition(';')[0]}"}
    assert team.ask("/session", both).status == 401


def test_an_expired_token_ends_the_session_and_its_open_stream(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "ALIVE_SECONDS", 0.01)
    cookie = team.log_in("anna")
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
        connection.sendall(
            f"GET /changes HTTP/1.1\r\nHost: {team.host}\r\nCookie: {cookie['Cookie']}\r\n\r\n".encode()
        )
        assert connection.recv(12) == b"HTTP/1.1 200"
        team.refused.add("t-anna")
        team.now += CHECK_SECONDS
        while connection.recv(1 << 16):
            pass
    assert team.ask("/session", cookie).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "/page/../../server.py",
        "//etc/passwd",
        "/etc/passwd",
        "/main.js/../../server.py",
        "/main.js%00",
        "/main.js;x",
        "/MAIN.JS",
        "/\\..\\server.py",
        "/" + "a" * 60_000,
        "/%0d%0aSet-Cookie:%20vgpu=x",
    ],
    ids=lambda path: path[:40],
)
def test_a_path_leads_to_no_other_file(team: Team, path: str) -> None:
    for headers in ({}, team.log_in("anna")):
        answer = team.ask(path, headers)
        assert answer.status == (404 if headers else 401)
        assert len(answer.text) < 100
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "request_line",
    [
        "GET http://example.com/session HTTP/1.1",
        "GET session HTTP/1.1",
        "GET * HTTP/1.1",
        "GET  HTTP/1.1",
        "GET / HTTP/9.9",
        "<script>alert(1)</script> / HTTP/1.1",
        "TRACE / HTTP/1.1",
        "CONNECT example.com:443 HTTP/1.1",
    ],
)
def test_a_request_of_another_form_gets_no_data_and_nothing_of_it_back(team: Team, request_line: str) -> None:
    cookie = team.log_in("anna")["Cookie"]
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
        connection.sendall(f"{request_line}\r\nHost: {team.host}\r\nCookie: {cookie}\r\n\r\n".encode())
        text = b""
        connection.settimeout(1)
        try:
            while part := connection.recv(1 << 16):
                text += part
        except TimeoutError:
            pass
    assert b"anna" not in text
    assert b"<script>" not in text
    assert not text.startswith(b"HTTP/1.1 200") or b"text/html" not in text


def test_headers_of_a_line_with_several_meanings_are_refused(team: Team) -> None:
    cookie = team.log_in("anna")["Cookie"]
    for lines in (
        [f"Host: {team.host}", "Host: example.com"],
        [f"Host: {team.host}", f"Cookie: {cookie}; {cookie}x"],
        [f"Host: {team.host}", f"Cookie: {cookie}", f"Cookie: {cookie}"],
    ):
        with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
            text = "\r\n".join(["GET /session HTTP/1.1", *lines, "Connection: close", "", ""])
            connection.sendall(text.encode())
            assert connection.recv(12)[9:] in (b"403", b"401")


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "1e3"}, 400),
        ({"Content-Length": "99999999999"}, 400),
        ({"Content-Length": str(base.MOST_BODY + 1)}, 400),
        ({"Transfer-Encoding": "chunked", "Content-Length": "2"}, 400),
    ],
    ids=str,
)
def test_a_body_of_another_size_than_it_should_have_is_not_read(
    team: Team, more: dict[str, str], status: int
) -> None:
    lines = "".join(f"{key}: {value}\r\n" for key, value in {"Host": team.host, **team.own, **more}.items())
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
        connection.sendall(f"POST /login HTTP/1.1\r\n{lines}\r\n{{}}".encode())
        assert connection.recv(12).endswith(str(status).encode())


@pytest.mark.parametrize(
    "framing", ["Content-Length: {}", "Transfer-Encoding: chunked", "transfer-encoding: x"]
)
def test_a_body_of_a_get_is_not_the_next_request(team: Team, framing: str) -> None:
    """Behind a proxy, the answer to a request in a body would be the answer to somebody else's request."""
    inner = f"GET /none HTTP/1.1\r\nHost: {team.host}\r\n\r\n"
    head = f"GET /session HTTP/1.1\r\nHost: {team.host}\r\n{framing.format(len(inner))}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
        connection.sendall(f"{head}{inner}".encode())
        text = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                text += part
    assert text.startswith(b"HTTP/1.1 400")
    assert text.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "{", "[" * 30_000, '"x"', "{}", '{"token": 1}', '{"token": ["t-anna"]}']
)
def test_a_body_without_a_token_is_no_login(team: Team, body: str) -> None:
    assert team.ask("/login", team.own, "POST", body).status in (400, 401)


def test_a_token_that_is_too_long_is_refused(team: Team) -> None:
    assert team.post("/login", {"token": "t-" + "a" * MOST_TOKEN}).status == 401


def test_giant_heads_end_their_connection(team: Team) -> None:
    for head in (b"X: " + b"a" * 60_000 + b"\r\n", b"X-Y: " + b"b" * 900 + b"\r\n"):
        with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
            sent = 0
            try:
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {team.host}\r\n".encode())
                while sent < 50 * base.MOST_REQUEST:
                    connection.sendall(head)
                    sent += len(head)
                ended = not connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            except (ConnectionError, TimeoutError):
                ended = True
            assert ended


def test_a_request_that_comes_byte_by_byte_ends_at_its_deadline(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base.PageHandler, "timeout", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=0.05) as connection:
        ended = False
        for byte in b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000:
            try:
                connection.sendall(bytes([byte]))
                ended = connection.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
            if ended:
                break
        assert ended
    assert time.monotonic() - began < 20


def test_a_crowd_of_slow_connections_takes_nobodys_place(team: Team) -> None:
    cookie = team.log_in("anna")
    crowd = [socket.create_connection(("127.0.0.1", team.server.port), timeout=20) for _ in range(600)]
    for connection in crowd:
        with suppress(ConnectionError):
            connection.sendall(b"GET / HT")
    assert team.ask("/session", cookie).status == 200
    assert threading.active_count() < module.MOST_CONNECTIONS + 40
    for connection in crowd:
        connection.close()


def test_guesses_are_refused_without_a_question_once_there_are_too_many(team: Team) -> None:
    cookie = team.log_in("anna")
    found = [team.post("/login", {"token": f"guess-{number}"}).status for number in range(60)]
    assert set(found) == {401, 429}
    assert found.count(401) <= LOGIN_BURST
    assert team.ask("/session", cookie).status == 200


def test_streams_of_a_person_are_bounded_and_others_have_theirs(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STREAMS_OF_PERSON", 2)
    anna, bert = team.log_in("anna"), team.log_in("bert")
    opened = []
    for _ in range(2):
        connection = HTTPConnection("127.0.0.1", team.server.port, timeout=20)
        connection.request("GET", "/changes", headers=anna)
        assert connection.getresponse().status == 200
        opened.append(connection)
    assert team.ask("/changes", anna).status == 503
    assert team.ask("/changes", bert).status == 200
    for connection in opened:
        connection.close()


def test_a_change_needs_the_sessions_secret_our_own_page_and_the_setting(team: Team) -> None:
    made: list[str] = []
    cookie = team.log_in("anna")
    good = {**cookie, "X-Vgpu-Csrf": team.csrf(cookie)}
    wanted = {"action": "stop", "namespace": "team-a", "name": "train"}
    assert team.post("/change", wanted, good).status == 404, "nothing is changed where that is not set"
    changes = PersonalChanges(Endpoint("http://127.0.0.1:1", lambda: None))
    changes.make = lambda token, _: made.append(token) or "stopped"  # type: ignore[method-assign, assignment, func-returns-value]
    team.server.changes = changes
    for headers in (
        cookie,
        {**cookie, "X-Vgpu-Csrf": ""},
        {**cookie, "X-Vgpu-Csrf": team.csrf(team.log_in("anna"))},
        {"X-Vgpu-Csrf": good["X-Vgpu-Csrf"]},
        {**good, "Origin": "http://example.com"},
        {**good, "Sec-Fetch-Site": "cross-site"},
    ):
        assert team.post("/change", wanted, headers).status == 403
    assert team.ask("/change", good).status == 404
    assert made == []
    assert team.post("/change", wanted, good)[::2] == (200, "stopped\n")
    assert made == ["t-anna"]


def test_no_answer_has_a_name_of_another_namespace(team: Team) -> None:
    for name, own, other in (("anna", "team-a", "team-b"), ("bert", "team-b", "team-a")):
        cookie = team.log_in(name)
        text = team.stream(cookie)
        assert f"pod-of-{own}" in text
        assert other not in text
        for path in (
            "/session",
            "/use?node=n1&card=c",
            "/day",
            f"/why?pod={own}/x",
            "/",
            "/main.js",
            "/none",
        ):
            assert other not in team.ask(path, cookie).text


def test_headers_of_a_proxy_count_only_where_a_proxy_is_set_and_with_its_secret(team: Team) -> None:
    sent = {"X-User": "anna", SECRET_HEADER: SECRET}
    assert team.ask("/session", sent).status == 401
    made = Team(proxy=ProxyLogin("X-User", "", SECRET))
    try:
        assert json.loads(made.ask("/session", sent).text) == {"user": "anna", "csrf": ""}
        assert "pod-of-team-a" in made.stream(sent)
        assert made.ask("/session", {"X-User": "anna"}).status == 401
        assert made.ask("/session", {"X-User": "anna", SECRET_HEADER: SECRET[1:]}).status == 401
        assert made.post("/login", {"token": "t-anna"}).status == 404, "the proxy alone logs people in"
        assert 'data-login="proxy"' in made.ask("/").text
    finally:
        made.end()


def test_a_header_inside_a_header_is_refused() -> None:
    """A proxy that lets a CR pass sees one header there, and does not remove the groups in it."""
    made = Team(proxy=ProxyLogin("X-User", "X-Groups", SECRET))
    head = f"GET /session HTTP/1.1\r\nHost: {made.host}\r\n{SECRET_HEADER}: {SECRET}\r\nX-User: anna\r\n"
    try:
        for line in ("Cookie: a\rX-Groups: admins\r\n", "Cookie: a\r\r\n", "\rX-Groups: admins\r\n"):
            with socket.create_connection(("127.0.0.1", made.server.port), timeout=20) as connection:
                connection.sendall(f"{head}{line}\r\n".encode())
                assert connection.recv(12) == b"HTTP/1.1 431", line
    finally:
        made.end()


def test_connections_of_one_person_leave_room_for_others(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_OF_PERSON", 30)
    anna, bert = team.log_in("anna"), team.log_in("bert")
    opened = []
    for _ in range(module.MOST_CONNECTIONS):
        connection = HTTPConnection("127.0.0.1", team.server.port, timeout=20)
        connection.request("GET", "/session", headers=anna)
        assert connection.getresponse().read()
        opened.append(connection)
    assert team.ask("/session", bert).status == 200
    for connection in opened:
        connection.close()


def test_a_stream_that_is_read_slowly_ends_with_its_session(team: Team) -> None:
    number, length = 200, 100_000
    team.entries.put(
        "waiting", {f"team-a/{i}": {"namespace": "team-a", "text": "x" * length} for i in range(number)}
    )
    cookie = team.log_in("anna")
    with socket.create_connection(("127.0.0.1", team.server.port), timeout=20) as connection:
        connection.sendall(
            f"GET /changes HTTP/1.1\r\nHost: {team.host}\r\nCookie: {cookie['Cookie']}\r\n\r\n".encode()
        )
        read = len(connection.recv(1 << 16))
        assert team.post("/logout", {}, {**cookie, "X-Vgpu-Csrf": team.csrf(cookie)}).status == 200
        while part := connection.recv(1 << 16):
            read += len(part)
    assert 0 < read < number * length


def test_a_stream_of_a_proxys_user_ends_so_that_the_proxy_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "ALIVE_SECONDS", 0.01)
    made = Team(proxy=ProxyLogin("X-User", "", SECRET))
    try:
        with socket.create_connection(("127.0.0.1", made.server.port), timeout=20) as connection:
            head = f"GET /changes HTTP/1.1\r\nHost: {made.host}\r\nX-User: anna\r\n{SECRET_HEADER}: {SECRET}\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
            made.now += module.PROXY_STREAM_SECONDS
            while connection.recv(1 << 16):
                pass
    finally:
        made.end()
