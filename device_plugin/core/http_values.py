"""HTTP requests and answers as values for the services; adapters/http reads and writes their bytes."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

TEXT, JSON = "text/plain; charset=utf-8", "application/json"
# A header in answers of the job engine: the replica that plans the job in question, if another replica does.
PLANNER = "Vgpu-Planner"


class HttpRequest(Struct, frozen=True):
    """An HTTP request: `path` without escapes, `query` as it was sent, `headers` by their names in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""


class HttpAnswer(Struct, frozen=True):
    """An HTTP answer: its body (a text, or pieces of bytes), the content type, the status, and further headers."""

    body: str | Sequence[bytes]
    content: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = {}


App = Callable[[HttpRequest], HttpAnswer]

EarlyApp = Callable[[HttpRequest, int], HttpAnswer | None]
"""Answers a request by the beginning of its body, given the length of the whole body; None if it needs the whole."""
