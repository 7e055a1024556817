"""The page for a team at its Service: a forwarded port, logins, and what it answers."""

import json
import subprocess
from collections.abc import Iterator, Sequence
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
    address: str, path: str, cookie: str, method: str = "GET", body: str | None = None, csrf: str = ""
) -> tuple[int, str, str]:
    """The status, the cookie and the text of an answer."""
    own = {"Origin": f"http://{address}", "Content-Type": "application/json"}
    headers = {**own, "Cookie": cookie, "X-Vgpu-Csrf": csrf}
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
