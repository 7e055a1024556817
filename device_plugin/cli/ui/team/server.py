"""Serves the page to a team: each person logs in, and sees what the cluster lets that person read.

A browser holds the name of its session in a cookie that no script and no other site can use. A request that changes
something must come from our own page, which its Origin and the session's own secret show.
"""

import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import urlsplit

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.server import NO_BODY, Answer, PageHandler, PageServer, Reader
from device_plugin.cli.ui.team.changes import PersonalChanges
from device_plugin.cli.ui.team.proxy import ProxyLogin
from device_plugin.cli.ui.team.reviews import RefusedTokenError
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.sessions import BusyLoginError, Session, Sessions
from device_plugin.cli.ui.team.view import PersonalView
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.kube.errors import ApiError

# Most connections, each in a thread, and most streams of browsers among them, of all persons and of one.
MOST_CONNECTIONS, MOST_STREAMS, STREAMS_OF_PERSON = 400, 200, 24
# Connections of one person that are not closed for a new one of anybody.
CONNECTIONS_OF_PERSON = 48
# Seconds after which the stream of a person whom a proxy logged in ends; the proxy decides on the browser's next one.
PROXY_STREAM_SECONDS = 600.0


class TlsFiles:
    """A certificate with its key. Files that were replaced are read again for the next connection."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError if the files cannot be read, or do not belong together."""
        self._files = certificate, key
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._seen: object = None
        self._load()

    def wrapped(self, connection: socket) -> socket:
        """Returns the connection with TLS; the handshake is left to the connection's own thread."""
        try:
            self._load()
        except OSError:
            # A replacement that is not complete yet: the last certificate that was read is still used.
            self._seen = None
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _load(self) -> None:
        seen = [file.stat().st_mtime_ns for file in self._files]
        if seen != self._seen:
            self._context.load_cert_chain(*self._files)
            self._seen = seen


class TeamServer(PageServer):
    """Serves the page at `listen`. People log in with tokens (`sessions`), or a proxy logs them in (`proxy`).

    `public_url` is the address that browsers have; if it is empty, the Host of each request counts as this address.
    `changes` is None where nothing can be changed.
    """

    def __init__(
        self, listen: tuple[str, int], entries: PageEntries, answers: Mapping[str, Answer], *,
        sessions: Sessions, rights: Rights, clock: Callable[[], float],
        proxy: ProxyLogin | None = None, tls: TlsFiles | None = None, public_url: str = "",
        changes: PersonalChanges | None = None,
    ) -> None:  # fmt: skip
        """Open the port, and read the page's files. Raises OSError if the address cannot be used."""
        super().__init__(listen, _Handler, answers, connections=MOST_CONNECTIONS, streams=MOST_STREAMS)
        self.entries = entries
        self.sessions = sessions
        self.rights = rights
        self.clock = clock
        self.proxy = proxy
        self.changes = changes
        self.tls = tls
        public = urlsplit(public_url)
        self.public_host = public.netloc
        self.scheme = public.scheme or ("https" if tls else "http")
        self.cookie = "__Host-vgpu" if self.scheme == "https" else "vgpu"
        content, page = self.files["/"]
        login = "proxy" if proxy else "token"
        self.files["/"] = content, page.replace(b"<html ", f'<html data-login="{login}" '.encode(), 1)

        self._open = Counter[str]()
        # The owners of connections that are not closed for others, and how many each owner has.
        self._owners: dict[socket, str] = {}
        self._kept = Counter[str]()
        self._open_lock = threading.Lock()

    def keep(self, connection: socket, owner: str) -> None:
        """Keep a known owner's connection from being ended for a new one.

        At most CONNECTIONS_OF_PERSON connections of each owner are kept so.
        """
        with self._open_lock:
            if connection in self._owners or self._kept[owner] >= CONNECTIONS_OF_PERSON:
                return
            self._owners[connection] = owner
            self._kept[owner] += 1
        self.trust(connection)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends; then the connection counts no longer as its owner's."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                owner = self._owners.pop(request, None)
                if owner is not None:
                    self._kept -= Counter({owner: 1})

    @contextmanager
    def counted(self, owner: str) -> Iterator[bool]:
        """Count a stream of an owner while the context lasts; yields false if the owner has too many."""
        with self._open_lock:
            few = self._open[owner] < STREAMS_OF_PERSON
            self._open[owner] += 1
        try:
            yield few
        finally:
            with self._open_lock:
                self._open[owner] -= 1
                if not self._open[owner]:
                    del self._open[owner]

    def get_request(self) -> tuple[Any, Any]:
        """Returns the next connection, with TLS if there is a certificate."""
        connection, address = super().get_request()
        return (self.tls.wrapped(connection) if self.tls else connection), address


class _Handler(PageHandler):
    """One connection of a browser or a proxy."""

    server: TeamServer
    _person: Person | None = None
    _began = 0.0

    def foreign(self) -> str:
        """Returns the reason to refuse a request that is not from our page, as text; empty for one from our page."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or not self.path.startswith("/"):
            return "this address is not ours"
        public = self.server.public_host
        if public and hosts[0] != public:
            return f"this address is not ours: open {self.server.scheme}://{public}"
        if any(origin != f"{self.server.scheme}://{hosts[0]}" for origin in origins):
            return (
                "another page asks; behind a proxy with TLS, set publicUrl to the address that browsers have"
            )
        return self.from_elsewhere()

    def reader(self) -> Reader | None:
        """Returns the page's entries that the person may see; None for somebody who is not logged in."""
        self._person = self._known()
        if self._person is None:
            return None
        self.server.keep(self.connection, self._person.owner)
        self._began = self.server.clock()
        return PersonalView(self.server.entries, self.server.rights, self._person, self.server.clock)

    def withheld(self) -> str:
        """Returns the reason to refuse the use of cards over time; empty for a person who may see everything.

        The series of a card names no pod. But if only one pod holds the card, the series is the use of this pod, which
        the person perhaps may not see.
        """
        if self._person and self.server.rights.sight(self._person, frozenset()).everything:
            return ""
        return "the use of cards over time is for those who may list the pods and jobs of all namespaces"

    def lasts(self) -> bool:
        """True while the person may go on reading the stream.

        A person who logged in with a token may read while the session lasts; a person whom a proxy logged in, for
        PROXY_STREAM_SECONDS.
        """
        if self.server.proxy:
            return self.server.clock() - self._began < PROXY_STREAM_SECONDS
        return self._session() is not None

    def stream(self, reader: Reader) -> None:
        """Send the stream of changes, unless the person has too many streams."""
        with self.server.counted(self._person.owner if self._person else "") as few:
            if few:
                super().stream(reader)
            else:
                self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open: close one")

    def do_GET(self) -> None:
        """Answer a GET: /session with who is logged in, other paths as PageHandler does."""
        if urlsplit(self.path).path == "/session" and not self.foreign():
            self._tell_session()
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Log in or out, or make a change."""
        path = urlsplit(self.path).path
        # What is left of a refused request's body is not read.
        self.close_connection = True
        if why := self.foreign() or ("" if self.headers.get_all("Origin") else "no page asks"):
            self.send_text(HTTPStatus.FORBIDDEN, why)
        elif self.server.proxy or path not in ("/login", "/logout", "/change"):
            self.send_text(HTTPStatus.NOT_FOUND, "nothing is here")
        elif (body := self.body()) is None:
            self.send_text(HTTPStatus.BAD_REQUEST, NO_BODY)
        elif path == "/login":
            self._log_in(str(body.get("token", "")))
        elif (session := self._own_session()) is None:
            self.send_text(HTTPStatus.FORBIDDEN, "log in again")
        elif path == "/logout":
            self.server.sessions.end(self._cookie())
            self._set_cookie("", 0)
        else:
            self._change(session.token, body)

    def _log_in(self, token: str) -> None:
        try:
            name = self.server.sessions.begin(
                token.strip().removeprefix("Bearer ").strip(), self.client_address[0]
            )
        except RefusedTokenError as error:
            self.send_text(HTTPStatus.UNAUTHORIZED, str(error))
        except BusyLoginError as error:
            self.send_text(HTTPStatus.TOO_MANY_REQUESTS, str(error))
        except ApiError as error:
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, f"the token cannot be checked now: {error}")
        else:
            self._set_cookie(name, None)

    def _change(self, token: str, body: Mapping[str, Any]) -> None:
        """Make a change with the person's token; if the API server refuses it, answer with the server's own words."""
        if self.server.changes is None:
            self.send_text(HTTPStatus.NOT_FOUND, "the page makes no changes: set allowChanges")
            return
        self.send_change(partial(self.server.changes.make, token, body))

    def _set_cookie(self, value: str, seconds: int | None) -> None:
        """Answer with the cookie; it ends with the browser, or after `seconds`."""
        secure = "; Secure" if self.server.scheme == "https" else ""
        age = "" if seconds is None else f"; Max-Age={seconds}"
        cookie = f"{self.server.cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}"
        self.send(HTTPStatus.OK, "application/json", b"{}", {"Set-Cookie": cookie, "Connection": "close"})

    def _tell_session(self) -> None:
        """Answer who is logged in, with the secret that requests for changes need."""
        person = self._known()
        if person is None:
            self.send_text(HTTPStatus.UNAUTHORIZED, self.refusal)
            return
        session = None if self.server.proxy else self._session()
        told = {"user": person.name, "csrf": session.csrf if session else ""}
        self.send(HTTPStatus.OK, "application/json", json.dumps(told).encode())

    def _known(self) -> Person | None:
        """Returns the person who sends this request; None if nobody is logged in."""
        if self.server.proxy:
            return self.server.proxy.person(self.headers)
        session = self._session()
        return session.person if session else None

    def _session(self) -> Session | None:
        name = self._cookie()
        return self.server.sessions.find(name) if name else None

    def _cookie(self) -> str:
        """Returns the name of the session in the cookie; empty without one, or with several."""
        pairs = [
            pair.strip().partition("=")
            for text in self.headers.get_all("Cookie", [])
            for pair in text.split(";")
        ]
        found = [value for name, _, value in pairs if name == self.server.cookie]
        return found[0] if len(found) == 1 else ""

    def _own_session(self) -> Session | None:
        """Returns the session of a request that has the session's secret; None for any other request."""
        session = self._session()
        return session if session and session.accepts(self.headers.get("X-Vgpu-Csrf", "")) else None
