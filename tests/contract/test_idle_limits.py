"""The idle limit of pods and namespaces: which times are refused, and the default that a namespace gives."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_plugin.core.contract.annotations import IDLE_LIMIT
from tests.builders.objects import pod
from tests.contract.asking import asking, refused
from tests.contract.cluster import PODS, Answer, Cluster, namespace, unique
from tests.deadline import until
from tests.release import OLDER, since

POLICY = "vgpu-idle-limit"
WRITE = (
    "write a time of at least 30 minutes (parameter leastIdleMinutes) and at most 366 days, such as 2h or 90m"
)
BAD = [
    "", "2", "two hours", "-2h", "2h ", "1.5h", "2H", "30m1h", "29m", "29m59s", "1799s", "0h", "1s", "367d",
    "366d1s", "9999999999h", "999999999d", "never",
]  # fmt: skip


def limited(name: str, limit: str) -> dict[str, Any]:
    body = asking(name)
    body["metadata"]["annotations"] = {IDLE_LIMIT: limit}
    return body


def limit_of(body: dict[str, Any]) -> str | None:
    found: str | None = body["metadata"].get("annotations", {}).get(IDLE_LIMIT)
    return found


@pytest.fixture
def own(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test."""
    with namespace(cluster, {}) as name:
        yield name


@pytest.fixture
def here(own: str) -> str:
    """The path of its pods."""
    return f"/api/v1/namespaces/{own}/pods"


def give_default(cluster: Cluster, name: str, limit: str | None) -> Any:
    change = {"metadata": {"annotations": {IDLE_LIMIT: limit}}}
    return cluster.patch(f"/api/v1/namespaces/{name}", change)


@pytest.mark.parametrize("limit", BAD)
def test_what_is_no_time_or_too_short_or_too_long_is_refused(cluster: Cluster, name: str, limit: str) -> None:
    answer = cluster.post(PODS, limited(name, limit), "editor")
    refused(answer, POLICY, f"annotation {IDLE_LIMIT} is {limit}: {WRITE}")


def test_a_huge_value_is_refused_without_a_copy_of_it(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, limited(name, "2h" * 60_000), "editor")
    refused(answer, POLICY, f"annotation {IDLE_LIMIT} has 120000 characters: {WRITE}")
    assert len(answer.message) < 1000


def test_pods_that_do_not_ask_are_let_be(cluster: Cluster, name: str) -> None:
    body = pod(name)
    body["metadata"]["annotations"] = {IDLE_LIMIT: "10s"}
    assert cluster.post(f"{PODS}?dryRun=All", body, "editor").code == 201


@pytest.mark.parametrize("limit", ["30m", "1800s", "2h", "1h30m", "1d", "1d2h3m4s", "366d", "000000030m"])
def test_a_time_within_the_bounds_stays(cluster: Cluster, name: str, limit: str) -> None:
    answer = cluster.post(f"{PODS}?dryRun=All", limited(name, limit), "editor")
    assert answer.code == 201, answer.body
    assert limit_of(answer.body) == limit


def test_a_bad_one_cannot_be_written_later_and_an_old_one_may_stay(
    cluster: Cluster, name: str, path: str
) -> None:
    assert cluster.post(PODS, limited(name, "2h"), "editor").code == 201

    def written(where: str, **change: str | None) -> Answer:
        keys = {IDLE_LIMIT if key == "limit" else key: value for key, value in change.items()}
        return cluster.patch(where, {"metadata": {"annotations": keys}})

    try:
        for where in (path, f"{path}/status"):
            refused(written(where, limit="10s"), POLICY, f"is 10s: {WRITE}")
        assert limit_of(written(path, limit="3h").body) == "3h"
        assert limit_of(written(path, other="key").body) == "3h"
        assert limit_of(written(path, limit=None).body) is None
    finally:
        cluster.delete(f"{path}?gracePeriodSeconds=0")


@pytest.mark.parametrize("limit", ["10s", "soon"])
def test_a_namespaces_default_is_read_as_a_pods_limit(cluster: Cluster, own: str, limit: str) -> None:
    refused(give_default(cluster, own, limit), POLICY, f"is {limit}: {WRITE}")


@since("1.36", "MutatingAdmissionPolicy")
def test_a_namespaces_default_is_for_pods_that_ask_and_have_no_limit(
    cluster: Cluster, own: str, here: str
) -> None:
    dry = f"{here}?dryRun=All"

    def default() -> str | None:
        return limit_of(cluster.post(dry, asking(unique()), "admin").body)

    assert default() is None
    assert give_default(cluster, own, "4h").code == 200
    # Policies read namespaces from a cache of the API server, which learns of a change a moment later.
    until(lambda: default() == "4h", "the namespace has a default")
    noted = asking(unique())
    noted["metadata"]["annotations"] = {"another": "key"}
    for body in (asking(unique()), noted):
        answer = cluster.post(dry, body, "admin")
        assert answer.code == 201, answer.body
        assert limit_of(answer.body) == "4h"
    assert answer.body["metadata"]["annotations"]["another"] == "key"
    assert limit_of(cluster.post(dry, limited(unique(), "30d"), "admin").body) == "30d"
    assert limit_of(cluster.post(dry, pod(unique()), "admin").body) is None
    assert give_default(cluster, own, None).code == 200
    until(lambda: default() is None, "the namespace has no default")


@pytest.mark.skipif(not OLDER, reason="Kubernetes 1.36 and newer give the default")
def test_without_mutating_policies_there_is_no_default(cluster: Cluster, own: str, here: str) -> None:
    assert give_default(cluster, own, "4h").code == 200
    answer = cluster.post(f"{here}?dryRun=All", asking(unique()), "admin")
    assert (answer.code, limit_of(answer.body)) == (201, None)
