"""HTTP requests and answers as values, which a service takes and gives; adapters/http reads and writes their bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

TEXT, JSON = "text/plain; charset=utf-8", "application/json"
# A header of the job engine's answers: the replica that plans the job which was asked for, if that is another one.
PLANNER = "Vgpu-Planner"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request: `path` without escapes, `query` as it was sent, `headers` by their names in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer: its body, whole or in pieces, the type of that, the status, and further headers."""

    body: str | Sequence[bytes]
    content: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


App = Callable[[HttpRequest], HttpAnswer]
