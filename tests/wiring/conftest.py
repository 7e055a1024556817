import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import urllib3

from hack.embedded.apiserver import EmbeddedApiServer
from tests.deadline import eventually

# Only a test that fails waits as long.
SECONDS = 60.0
Get = Callable[[str], tuple[int, str]]
Running = Callable[[Callable[[threading.Event], int]], AbstractContextManager[dict[str, str]]]


@pytest.fixture
def api() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def get() -> Iterator[Get]:
    """Answers GET of an address with the status and the text."""
    pool = urllib3.PoolManager(retries=False)

    def get(url: str) -> tuple[int, str]:
        answer = pool.request("GET", f"http://{url}", timeout=SECONDS)
        return answer.status, answer.data.decode()

    yield get
    pool.clear()


@pytest.fixture
def running(capsys: pytest.CaptureFixture[str]) -> Running:
    """Runs a service in a thread while a block lasts, which gets where it listens; checks that it ends well."""

    @contextmanager
    def running(run: Callable[[threading.Event], int]) -> Iterator[dict[str, str]]:
        stop, ended = threading.Event(), list[int]()
        thread = threading.Thread(target=lambda: ended.append(run(stop)))
        thread.start()
        try:
            line = eventually(lambda: capsys.readouterr().out, SECONDS)
            yield dict(word.split("=") for word in line.split() if "=" in word)
        finally:
            stop.set()
            thread.join(SECONDS)
        assert ended == [0]

    return running
