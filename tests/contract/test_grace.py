"""How long the container of a deleted pod may keep its card: the grace periods of pods that ask for slices."""

from typing import Any

import pytest

from tests.builders.objects import pod
from tests.contract.asking import asking, container, refused
from tests.contract.cluster import PODS, Answer, Cluster, bind, nowhere
from tests.contract.test_eviction import eviction

# Of a family that no node has, so that nobody places it here.
ASKING = container(limits={"hygon.com/hcu-mem": "4"})
DAY = 86_400


@pytest.fixture
def bound(cluster: Cluster, name: str, path: str) -> Any:
    """A function that creates a pod on a node without a kubelet, and returns its path."""

    def create(body: dict[str, Any]) -> str:
        assert cluster.post(PODS, body).code == 201
        bind(cluster, path, nowhere(name))
        return path

    yield create
    cluster.delete(f"{path}?gracePeriodSeconds=0")


def grace(answer: Answer) -> int:
    assert answer.code == 200, answer.body
    return int(answer.body["metadata"]["deletionGracePeriodSeconds"])


def denied(answer: Answer, *words: str) -> None:
    """Refused because of who asks."""
    assert answer.refusal == (403, "Forbidden"), answer.body
    for word in words:
        assert word in answer.message


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"terminationGracePeriodSeconds": DAY}, DAY),
        ({"terminationGracePeriodSeconds": 0}, 0),
        ({"containers": [{**ASKING, "livenessProbe": {"terminationGracePeriodSeconds": DAY}}]}, DAY),
        ({"containers": [{**ASKING, "startupProbe": {"terminationGracePeriodSeconds": DAY}}]}, DAY),
    ],
)
def test_the_grace_that_a_pod_itself_writes(
    cluster: Cluster, name: str, spec: dict[str, Any], seconds: int
) -> None:
    for part in spec.get("containers", ()):
        for probe in (part[key] for key in part if key.endswith("Probe")):
            probe["exec"] = {"command": ["true"]}
    refused(
        cluster.post(PODS, asking(name, **spec), "editor"), "vgpu-grace",
        f"terminationGracePeriodSeconds is {seconds}", "write 1 to 3600",
    )  # fmt: skip


@pytest.mark.parametrize("seconds", [1, 3600])
def test_an_hour_is_allowed(name: str, accepted: Any, seconds: int) -> None:
    accepted(asking(name, terminationGracePeriodSeconds=seconds))


def test_a_deletion_gives_no_more(cluster: Cluster, name: str, bound: Any) -> None:
    path = bound(asking(name, containers=[ASKING]))
    words = ("gracePeriodSeconds is 86400", "write at most 3600, or leave it out")
    refused(cluster.delete(f"{path}?gracePeriodSeconds={DAY}", role="editor"), "vgpu-deletions", *words)
    refused(cluster.delete(path, {"gracePeriodSeconds": DAY}, "editor"), "vgpu-deletions", *words)
    assert grace(cluster.delete(f"{path}?gracePeriodSeconds=3600", role="editor")) == 3600
    # A second one can only shorten it.
    assert grace(cluster.delete(path, {"gracePeriodSeconds": 20}, "editor")) == 20


def test_a_deletion_that_says_nothing_has_the_grace_of_the_pod(
    cluster: Cluster, name: str, bound: Any
) -> None:
    path = bound(asking(name, containers=[ASKING], terminationGracePeriodSeconds=77))
    assert grace(cluster.delete(path, role="editor")) == 77
    denied(
        cluster.delete(f"{path}?gracePeriodSeconds=0", role="editor"),
        "a forced deletion (gracePeriodSeconds 0)",
    )


def test_by_force_only_with_the_right_to(cluster: Cluster, name: str, bound: Any) -> None:
    path = bound(asking(name, containers=[ASKING]))
    words = ("delete it without --force, or with --grace-period=1", "the verb force on slices.vgpu.io")
    denied(cluster.delete(f"{path}?gracePeriodSeconds=0", role="editor"), *words)
    denied(cluster.delete(path, {"gracePeriodSeconds": 0}, "editor"), *words)
    assert cluster.get(path).code == 200
    assert cluster.delete(f"{path}?gracePeriodSeconds=0", role="admin").code == 200
    assert cluster.get(path).refusal == (404, "NotFound")


def test_a_kubelet_ends_what_ran_on_its_node(cluster: Cluster, name: str, bound: Any) -> None:
    path = bound(asking(name, containers=[ASKING]))
    assert cluster.delete(f"{path}?gracePeriodSeconds=0", role="kubelet").code == 200
    assert cluster.get(path).refusal == (404, "NotFound")


def test_a_pod_without_a_node_is_gone_at_once(cluster: Cluster, name: str, path: str) -> None:
    for options in ("", "?gracePeriodSeconds=0"):
        assert cluster.post(PODS, asking(name, containers=[ASKING]), "editor").code == 201
        assert cluster.delete(f"{path}{options}", role="editor").code == 200
        assert cluster.get(path).refusal == (404, "NotFound")


def test_a_pod_that_has_ended_is_gone_at_once(cluster: Cluster, name: str, bound: Any) -> None:
    path = bound(asking(name, containers=[ASKING]))
    ended = cluster.patch(f"{path}/status", {"status": {"phase": "Failed"}}, "garbage collector")
    assert ended.code == 200
    assert cluster.delete(path, role="editor").code == 200
    assert cluster.get(path).refusal == (404, "NotFound")


@pytest.mark.parametrize("options", [f"?gracePeriodSeconds={DAY}", "?gracePeriodSeconds=0"])
def test_pods_that_do_not_ask_are_deleted_as_ever(
    cluster: Cluster, name: str, bound: Any, options: str
) -> None:
    path = bound(pod(name, terminationGracePeriodSeconds=0, schedulerName="nobody"))
    assert cluster.delete(f"{path}{options}", role="editor").code == 200


@pytest.mark.parametrize("seconds", [0, DAY])
def test_an_eviction_gives_neither_more_nor_nothing(
    cluster: Cluster, name: str, bound: Any, seconds: int
) -> None:
    path = bound(asking(name, containers=[ASKING]))
    answer = cluster.post(f"{path}/eviction", eviction(name, gracePeriodSeconds=seconds), "editor")
    denied(answer, f"gracePeriodSeconds is {seconds}: write 1 to 3600, leave it out")
    assert "deletionTimestamp" not in cluster.get(path).body["metadata"]


@pytest.mark.parametrize("options", [{}, {"gracePeriodSeconds": 50}])
def test_other_evictions_are_as_ever(
    cluster: Cluster, name: str, bound: Any, options: dict[str, int]
) -> None:
    path = bound(asking(name, containers=[ASKING], terminationGracePeriodSeconds=50))
    assert cluster.post(f"{path}/eviction", eviction(name, **options), "editor").code == 201
    assert cluster.get(path).body["metadata"]["deletionGracePeriodSeconds"] == 50
