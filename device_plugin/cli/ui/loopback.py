"""Serves the page of `vgpu ui` on a loopback address, to the person who started it.

Every request must name our own address (against DNS rebinding) and come from our own page, and all requests but those
for the page's files need the token that the command prints. The token is behind `#` in the address, which no browser
sends; the page sends it in a header. Other users of the machine can connect too: at the limit of connections, a
connection without the token is closed for a new one.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.server import NO_BODY, Answer, PageHandler, PageServer, Reader


class LoopbackServer(PageServer):
    """Serves the page on 127.0.0.1, at `port` or any free port. The browser must open `address`."""

    def __init__(
        self, entries: PageEntries, answers: Mapping[str, Answer], port: int = 0, *,
        change: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:  # fmt: skip
        """`change` makes a change that the page asks for; None if it makes none. Raises OSError for a port in use."""
        super().__init__(("127.0.0.1", port), _Handler, answers)
        self.entries = entries
        self.change = change
        self.token = secrets.token_urlsafe(32)
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.address = f"http://127.0.0.1:{self.port}/#token={self.token}"


class _Handler(PageHandler):
    """One connection of the person's browser, or of somebody else on this machine."""

    server: LoopbackServer
    refusal = "open the address that `vgpu ui` printed last"

    def foreign(self) -> str:
        """Returns the reason to refuse a request that is not from our page, as text; empty for one from our page."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts or not self.path.startswith("/"):
            return "this address is not ours"
        if any(origin not in self.server.origins for origin in origins):
            return "another page asks"
        return self.from_elsewhere()

    def do_POST(self) -> None:
        """Make the change that the page asks for; a request without the token is refused."""
        # What is left of a refused request's body is not read.
        self.close_connection = True
        if why := self.foreign() or ("" if self.headers.get_all("Origin") else "no page asks"):
            self.send_text(HTTPStatus.FORBIDDEN, why)
        elif self.reader() is None:
            self.send_text(HTTPStatus.UNAUTHORIZED, self.refusal)
        elif self.path != "/change":
            self.send_text(HTTPStatus.NOT_FOUND, "nothing is here")
        elif self.server.change is None:
            self.send_text(
                HTTPStatus.NOT_FOUND, "the page makes no changes: start vgpu ui with --allow-changes"
            )
        elif (body := self.body()) is None:
            self.send_text(HTTPStatus.BAD_REQUEST, NO_BODY)
        else:
            self.send_change(partial(self.server.change, body))

    def reader(self) -> Reader | None:
        """Returns all entries of the page if the request has the token, else None."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            return None
        self.server.trust(self.connection)
        return self.server.entries

    def lasts(self) -> bool:
        """True: the token is good until the command ends."""
        return True
