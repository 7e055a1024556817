"""The page for a team at its Service: a forwarded port, logins, and what it answers."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection

from tests.e2e.service import SYSTEM

SECONDS = 60


@contextmanager
def forwarded() -> Iterator[str]:
    """The address of the Service, forwarded to this machine."""
    command = ["kubectl", "--namespace", SYSTEM.namespace, "port-forward", "service/vgpu-ui", ":80"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[2]
        finally:
            process.terminate()


def ask(
    address: str, path: str, cookie: str, method: str = "GET", body: str | None = None, csrf: str = "",
    more: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:  # fmt: skip
    """The status, the cookie and the text of an answer. `more` are headers, in place of those of the page itself."""
    own = {"Origin": f"http://{address}", "Content-Type": "application/json"}
    headers = {**own, "Cookie": cookie, "X-Vgpu-Csrf": csrf, **(more or {})}
    with closing(HTTPConnection(address, timeout=SECONDS)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Set-Cookie") or "", answer.read().decode()


def stream(address: str, cookie: str, until: Sequence[str]) -> str:
    """The stream's text up to where all of these words have come."""
    with closing(HTTPConnection(address, timeout=SECONDS)) as connection:
        connection.request("GET", "/changes", headers={"Cookie": cookie})
        answer = connection.getresponse()
        text = ""
        for line in answer:
            text += line.decode()
            if all(word in text for word in until):
                break
        answer.close()
        return text


def logged_in(address: str, token: str) -> str:
    """The cookie of a person who has logged in with a token."""
    status, cookie, text = ask(address, "/login", "", "POST", json.dumps({"token": token}))
    assert status == 200, text
    return cookie.partition(";")[0]


def check_attacks(address: str, token: str) -> None:
    """Assert that other sites, frames, paths to other files, a forged cookie and an ended session are refused."""
    cookie, login = logged_in(address, token), json.dumps({"token": token})
    csrf = str(json.loads(ask(address, "/session", cookie)[2])["csrf"])
    for other in (
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": f"https://{address}"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert ask(address, "/login", "", "POST", login, more=other)[:2] == (403, ""), other
        for path in ("/logout", "/change"):
            assert ask(address, path, cookie, "POST", "{}", csrf, other)[0] == 403, (path, other)
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert ask(address, "/", "", more=framed)[0] == 403
    for path in (
        "/../server.py",
        "/..%2fserver.py",
        "//etc/passwd",
        "/main.js/../../server.py",
        "/main.js%00",
    ):
        assert ask(address, path, cookie)[0] == 404, path
    chosen = "vgpu=chosen-by-an-attacker"
    assert "chosen" not in ask(address, "/login", chosen, "POST", login)[1]
    assert ask(address, "/session", chosen)[0] == 401
    assert ask(address, "/logout", cookie, "POST", "{}", "another session's")[0] == 403
    assert ask(address, "/session", cookie)[0] == 200, "nothing of this ended the session"
    assert ask(address, "/logout", cookie, "POST", "{}", csrf)[0] == 200
    for path in ("/session", "/changes", "/day"):
        assert ask(address, path, cookie)[0] == 401, path
