"""List and watch through everything a server does: closes, restarts, forgets, sends what cannot be read."""

import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch, feed
from device_plugin.core.pods import Node
from device_plugin.kube.api import NODES, Change, Ref
from device_plugin.kube.errors import ExpiredError, UnknownError
from hack.embedded.apiserver import EmbeddedApiServer, resources
from tests.adapters.kube.conftest import annotate, node

SECONDS = 60.0


class Follower:
    """Runs a ListWatch of nodes and hands out what it tells, in order."""

    def __init__(self, client: KubeClient, silence: float = 5.0) -> None:
        self.told: queue.Queue[tuple[str, list[str]]] = queue.Queue()
        self.stop = threading.Event()
        self.watch = ListWatch(client, NODES, silence=silence, rng=random.Random(1))
        run = partial(self.watch.run, on_restore=self._restored)
        self.thread = threading.Thread(target=run, args=(self._sync, self._change, self.stop))
        self.thread.start()

    def _sync(self, items: Sequence[Node]) -> None:
        self.told.put(("sync", sorted(item.name for item in items)))

    def _restored(self) -> None:
        self.told.put(("restored", []))

    def _change(self, change: Change, item: Node) -> None:
        self.told.put((change.value, [item.name]))

    def next(self) -> tuple[str, list[str]]:
        return self.told.get(timeout=SECONDS)

    def end(self) -> None:
        self.stop.set()
        self.watch.interrupt()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


@pytest.fixture
def follower(client: KubeClient) -> Iterator[Follower]:
    node(client, "n1")
    made = Follower(client)
    assert made.next() == ("sync", ["n1"])
    yield made
    made.end()


def test_changes_follow_the_list(follower: Follower, client: KubeClient) -> None:
    node(client, "n2")
    assert follower.next() == ("ADDED", ["n2"])
    annotate(client, "n1", a="b")
    assert follower.next() == ("MODIFIED", ["n1"])
    client.delete(NODES, Ref("n1"))
    assert follower.next() == ("DELETED", ["n1"])


def test_a_server_that_was_away_costs_no_change(
    follower: Follower, client: KubeClient, api: EmbeddedApiServer
) -> None:
    api.stop()
    api.start()
    node(client, "n2")
    assert follower.next() == ("ADDED", ["n2"])


def test_a_forgotten_history_is_listed_again(client: KubeClient, api: EmbeddedApiServer) -> None:
    node(client, "n1")
    follower = Follower(client)
    assert follower.next() == ("sync", ["n1"])
    api.stop()
    api.registry.create("system:admin", _nodes(), {"metadata": {"name": "n2"}})
    api.store.compact()
    api.start()
    assert follower.next() == ("sync", ["n1", "n2"])
    follower.end()


def test_after_a_restored_etcd_the_older_state_is_listed_though_the_watch_shows_nothing(
    client: KubeClient, api: EmbeddedApiServer
) -> None:
    for name in ("n1", "n2"):
        node(client, name)
    for number in range(100):
        annotate(client, "n1", number=f"{number}")
    follower = Follower(client, silence=1.0)
    assert follower.next() == ("sync", ["n1", "n2"])
    api.stop()
    restored = EmbeddedApiServer(bookmark_seconds=0.1)
    restored.registry.create("system:admin", _nodes(), {"metadata": {"name": "n1"}})
    assert restored.store.version < api.store.version - 50
    restored._port = api._port
    restored.start()
    assert follower.next() == ("restored", [])
    assert follower.next() == ("sync", ["n1"])
    node(client, "n3")
    assert follower.next() == ("ADDED", ["n3"])
    follower.end()
    restored.stop()


def test_a_silent_stream_is_listed_anew(client: KubeClient, api: EmbeddedApiServer) -> None:
    api.bookmark_seconds = 60.0
    node(client, "n1")
    follower = Follower(client, silence=0.3)
    assert [follower.next() for _ in range(2)] == [("sync", ["n1"])] * 2
    follower.end()


def test_what_cannot_be_read_is_skipped(follower: Follower, client: KubeClient) -> None:
    bad = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "bad"},
        "status": {"capacity": {"a/b": [1]}},
    }
    with pytest.raises(UnknownError, match="cannot be read"):
        client.create(NODES, bad)
    node(client, "n2")
    assert follower.next() == ("ADDED", ["n2"])


class Recorded(threading.Event):
    """Notes how long it was to be waited for, and is set after six times."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) == 6:
            self.set()
        return True

    @property
    def ever_longer(self) -> bool:
        grows = all(later > earlier * 0.9 for earlier, later in itertools.pairwise(self.waits))
        return grows and len(self.waits) == 6 and self.waits[-1] > 1.0


def closes(version: str, *_: object) -> str:
    return version


def forgets(*_: object) -> str:
    raise ExpiredError("too old resource version")


@pytest.mark.parametrize("what_it_does", [closes, forgets])
def test_a_server_that_ends_watches_at_once_is_asked_ever_more_slowly(
    client: KubeClient, what_it_does: Callable[..., str]
) -> None:
    watch = ListWatch(client, NODES, rng=random.Random(1))
    watch._watch = what_it_does  # type: ignore[method-assign]
    stop = Recorded()
    watch.run(lambda _: None, lambda *_: None, stop)
    assert stop.ever_longer


def test_a_defect_of_whoever_listens_is_not_taken_for_the_streams_end(client: KubeClient) -> None:
    node(client, "n1")
    watch = ListWatch(client, NODES)

    def listed(_: Sequence[Node]) -> None:
        node(client, "n2")

    def changed(*_: object) -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        watch.run(listed, changed, threading.Event())


def test_an_interrupt_at_the_end_of_a_stream_harms_nobody(client: KubeClient) -> None:
    watch = ListWatch(client, NODES)
    stream = client._connections.stream("/api/v1/nodes", {}, 1.0)
    list(stream.body())
    watch._stream = stream
    watch.interrupt()
    stream.close()
    watch.interrupt()
    stop = threading.Event()
    watch.run(lambda _: None, lambda *_: None, stop)


class Log:
    """Takes news of nodes, and notes it in a list that several share."""

    def __init__(self, name: str, notes: "queue.Queue[tuple[str, str, list[str]]]") -> None:
        self._name = name
        self._notes = notes

    def sync(self, items: Sequence[Node]) -> None:
        self._notes.put((self._name, "sync", [item.name for item in items]))

    def see(self, item: Node) -> None:
        self._notes.put((self._name, "see", [item.name]))

    def forget(self, item: Node) -> None:
        self._notes.put((self._name, "forget", [item.name]))


def test_each_part_takes_the_list_and_every_change_in_order(client: KubeClient) -> None:
    notes: queue.Queue[tuple[str, str, list[str]]] = queue.Queue()
    watch, stop = ListWatch(client, NODES), threading.Event()
    node(client, "n1")
    parts = Log("a", notes), Log("b", notes)
    thread = threading.Thread(target=feed, args=(watch, stop, *parts))
    thread.start()

    def next_two(what: str, name: str) -> None:
        for part in ("a", "b"):
            assert notes.get(timeout=SECONDS) == (part, what, [name])

    next_two("sync", "n1")
    annotate(client, "n1", some="text")
    next_two("see", "n1")
    client.delete(NODES, Ref("n1"))
    next_two("forget", "n1")
    stop.set()
    watch.interrupt()
    thread.join(SECONDS)
    assert not thread.is_alive()


def _nodes() -> resources.RequestTarget:
    return resources.RequestTarget(resources.NODES)
