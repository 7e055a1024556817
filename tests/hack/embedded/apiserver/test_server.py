"""What the stand-in offers to tests beyond the protocol: going away, forgetting, recording writes."""

import http.client
import json
import random
import threading
from collections.abc import Iterator

import pytest

from hack.embedded.apiserver import EmbeddedApiServer
from tests.builders.objects import pod
from tests.contract.cluster import PODS, Cluster
from tests.deadline import until

BEARERS = {
    role: {"Authorization": f"Bearer {user}"}
    for role, user in (("admin", "system:admin"), ("tenant", "jane"))
}


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    made = EmbeddedApiServer(bookmark_seconds=0.05)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def cluster(server: EmbeddedApiServer) -> Iterator[Cluster]:
    made = Cluster(server.url.removeprefix("http://"), BEARERS)
    yield made
    made.close()


def test_names_are_made_without_the_generator_of_the_process(cluster: Cluster) -> None:
    """Property tests seed that one, and fail where another thread draws from it meanwhile."""
    random.seed(0)
    before = random.getstate()
    generated = {**pod("p"), "metadata": {"generateName": "p-"}}
    names = {cluster.post(PODS, generated).body["metadata"]["name"] for _ in range(2)}
    assert random.getstate() == before
    random.seed(0)
    names.add(cluster.post(PODS, generated).body["metadata"]["name"])
    assert len(names) == 3


def test_objects_and_port_survive_an_absence(server: EmbeddedApiServer, cluster: Cluster) -> None:
    created = cluster.post(PODS, pod("p"))
    url = server.url
    server.stop()
    cluster.close()
    with pytest.raises(ConnectionRefusedError):
        cluster.get(PODS)
    cluster.close()
    server.start()
    assert server.url == url
    assert cluster.get(f"{PODS}/p").body == created.body


def test_an_absence_ends_watches_without_a_word(server: EmbeddedApiServer, cluster: Cluster) -> None:
    with cluster.watch(PODS) as watch:
        server.stop()
        with pytest.raises(http.client.IncompleteRead):
            watch._response.read()
    server.start()


def test_a_watch_resumes_where_it_was_before_an_absence(server: EmbeddedApiServer, cluster: Cluster) -> None:
    version = cluster.post(PODS, pod("p")).version
    cluster.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "1"}}})
    server.stop()
    server.start()
    with cluster.watch(PODS, resourceVersion=version) as watch:
        assert [kind for kind, _ in watch.take(1)] == ["MODIFIED"]


def test_stopping_leaves_no_threads() -> None:
    before = set(threading.enumerate())
    server = EmbeddedApiServer()
    server.start()
    cluster = Cluster(server.url.removeprefix("http://"), BEARERS)
    with cluster.watch(PODS):
        cluster.get(PODS)
        assert len(set(threading.enumerate()) - before) >= 3, "the listener, a watch and a kept connection"
        server.stop()
    cluster.close()
    until(lambda: set(threading.enumerate()) <= before)


def test_writes_are_recorded_with_their_user_and_conflicts_once_more_and_reads_are_not(
    server: EmbeddedApiServer, cluster: Cluster
) -> None:
    cluster.get(PODS)
    assert not server.write_requests
    cluster.post(PODS, pod("p"), "tenant")
    cluster.post(PODS, pod("p"), "tenant")
    cluster.delete(f"{PODS}/p")
    assert list(server.write_requests) == [
        ("jane", "POST", PODS), ("jane", "POST", PODS), ("system:admin", "DELETE", f"{PODS}/p")
    ]  # fmt: skip
    assert list(server.conflicts) == [("jane", "POST", PODS)]


def test_without_a_header_it_is_the_administrator(server: EmbeddedApiServer) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("POST", PODS, json.dumps(pod("p")))
    assert connection.getresponse().status == 201
    connection.close()
    assert [user for user, _, _ in server.write_requests] == ["system:admin"]


def test_history_is_bounded() -> None:
    small = EmbeddedApiServer(history=4)
    small.start()
    narrow = Cluster(small.url.removeprefix("http://"), BEARERS)
    version = narrow.post(PODS, pod("p")).version
    for step in range(12):
        narrow.patch(f"{PODS}/p", {"metadata": {"labels": {"step": str(step)}}})
    with narrow.watch(PODS, resourceVersion=version) as watch:
        ((kind, status),) = list(watch)
    narrow.close()
    small.stop()
    assert (kind, status["code"]) == ("ERROR", 410)


def test_a_version_that_is_no_number_is_a_bad_request(cluster: Cluster) -> None:
    assert cluster.get(f"{PODS}?watch=true&resourceVersion=yesterday").refusal == (400, "BadRequest")


@pytest.mark.parametrize(
    "spec",
    [
        None, [], "x", {"containers": "x"}, {"containers": ["x"]}, {"containers": [{"name": "a", "resources": "x"}]},
        {"containers": [{"name": "a", "resources": {"limits": [1]}}]}, {"containers": [{"name": ["a"]}]},
        {"containers": [{"name": "a", "volumeMounts": 3, "resources": {"limits": {"hygon.com/dcu-mem": "1"}}}]},
        {"containers": [{"name": "a", "resources": {"limits": {"hygon.com/dcu-mem": {"x": 1}}}}]},
    ],
)  # fmt: skip
def test_a_malformed_object_is_refused_and_the_server_lives(cluster: Cluster, spec: object) -> None:
    answer = cluster.post(PODS, pod("bad") | {"spec": spec})
    assert answer.refusal[0] in (400, 422)
    assert cluster.get(f"{PODS}/bad").code == 404


def test_a_strategic_patch_with_a_list_is_refused_with_the_way_out(cluster: Cluster) -> None:
    cluster.post(PODS, pod("p"))
    media = "application/strategic-merge-patch+json"
    answer = cluster.patch(f"{PODS}/p", {"spec": {"containers": []}}, media=media)
    assert answer.refusal == (415, "UnsupportedMediaType")
    said = "(of lists only conditions, finalizers in strategic merge patches here: send application/merge-patch+json)"
    assert said in answer.message


def test_writers_at_once_lose_nothing() -> None:
    # Without policies: a writer that was late evaluates them again, which takes minutes on a busy machine.
    server = EmbeddedApiServer([])
    server.start()
    cluster = Cluster(server.url.removeprefix("http://"), BEARERS)
    cluster.post(PODS, pod("p"))

    def write(own: str) -> None:
        connection = Cluster(cluster.address, BEARERS)
        for step in range(20):
            change = {"metadata": {"annotations": {f"{own}-{step}": "x"}}}
            assert connection.patch(f"{PODS}/p", change).code == 200
        connection.close()

    threads = [threading.Thread(target=write, args=(f"w{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cluster.get(f"{PODS}/p").body["metadata"]["annotations"]) == 80
    cluster.close()
    server.stop()


def test_a_list_of_a_forgotten_moment_does_not_go_on(server: EmbeddedApiServer, cluster: Cluster) -> None:
    for name in "abc":
        cluster.post(PODS, pod(name))
    rest = cluster.get(f"{PODS}?limit=1").body["metadata"]["continue"]
    assert cluster.get(f"{PODS}?limit=1&continue={rest}").body["items"][0]["metadata"]["name"] == "b"
    server.store.compact()
    assert cluster.get(f"{PODS}?limit=1&continue={rest}").refusal == (410, "Expired")
