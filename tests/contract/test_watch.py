"""Watches: what is seen, from when, and how a watch ends."""

import time

import pytest

from tests.builders.objects import binding, pod
from tests.contract.cluster import PODS, Cluster, unique


def only(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


@pytest.mark.usefixtures("pending")
def test_without_a_version_a_watch_begins_with_what_is_there(cluster: Cluster, name: str) -> None:
    with cluster.watch(PODS, **only(name)) as watch:
        ((kind, seen),) = watch.take(1)
    assert (kind, seen["kind"], seen["metadata"]["name"]) == ("ADDED", "Pod", name)


def test_every_change_after_a_version_comes_once_and_in_order(cluster: Cluster, name: str, path: str) -> None:
    version = cluster.get(PODS).version
    cluster.post(PODS, pod(name, schedulerName="nobody"))
    for value in "abc":
        cluster.patch(path, {"metadata": {"labels": {"step": value}}})
    cluster.delete(path)
    with cluster.watch(PODS, resourceVersion=version, **only(name)) as watch:
        events = []
        for event in watch:
            events.append(event)
            if event[0] == "DELETED":
                break
    steps = [(kind, seen["metadata"].get("labels", {}).get("step")) for kind, seen in events]
    assert steps[:4] == [("ADDED", None), ("MODIFIED", "a"), ("MODIFIED", "b"), ("MODIFIED", "c")]
    assert steps[-1] == ("DELETED", "c")
    versions = [int(seen["metadata"]["resourceVersion"]) for _, seen in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(version)


@pytest.mark.usefixtures("pending")
def test_the_metadata_alone_can_be_watched(cluster: Cluster, name: str) -> None:
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    with cluster.watch(PODS, accept, **only(name)) as watch:
        ((kind, seen),) = watch.take(1)
    assert kind == "ADDED"
    assert seen == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": cluster.get(f"{PODS}/{name}").body["metadata"],
    }


def test_what_enters_a_selection_is_added_and_what_leaves_it_deleted(
    cluster: Cluster, name: str, pending: str
) -> None:
    node = unique("node")
    options = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": "!hidden"}
    with cluster.watch(PODS, resourceVersion=cluster.get(pending).version, **options) as watch:
        cluster.post(f"{pending}/binding", binding(name, node))
        cluster.patch(pending, {"metadata": {"labels": {"hidden": "yes"}}})
        version = cluster.get(pending).version
        (first, added), (second, gone) = watch.take(2)
    assert (first, added["spec"]["nodeName"]) == ("ADDED", node)
    assert second == "DELETED"
    # The object as it was inside the selection, at the version at which it left.
    assert "hidden" not in gone["metadata"].get("labels", {})
    assert gone["metadata"]["resourceVersion"] == version


def test_a_watch_ends_by_itself_after_timeout_seconds(cluster: Cluster) -> None:
    begin = time.monotonic()
    with cluster.watch(PODS, timeoutSeconds="1", **only("nobody")) as watch:
        assert list(watch) == []
    assert time.monotonic() - begin < 20


def test_bookmarks_carry_the_version_over_silence(cluster: Cluster, pending: str) -> None:
    version = cluster.get(pending).version
    other = unique()
    written = int(cluster.post(PODS, pod(other, schedulerName="nobody")).version)
    # The real one sends one bookmark, two seconds before the end: what it must tell is written by then.
    options = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "6"}
    with cluster.watch(PODS, **options, **only("nobody")) as watch:
        seen = []
        for kind, item in watch:
            seen.append((kind, item["kind"]))
            if (told := int(item["metadata"]["resourceVersion"])) >= written:
                break
    cluster.delete(f"{PODS}/{other}")
    assert set(seen) == {("BOOKMARK", "Pod")}
    assert told >= written


def test_a_watch_from_a_version_that_is_not_reached_yet_is_silent(
    cluster: Cluster, name: str, pending: str
) -> None:
    """Neither changes nor bookmarks: so it is after etcd was restored from an older state."""
    version = str(int(cluster.get(pending).version) + 1_000_000)
    options = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
    with cluster.watch(PODS, **options, **only(name)) as watch:
        cluster.patch(pending, {"metadata": {"labels": {"a": "1"}}})
        assert (watch.code, list(watch)) == (200, [])


def test_a_version_from_the_future_is_a_timeout(cluster: Cluster) -> None:
    answer = cluster.get(f"{PODS}?resourceVersion=9000000000000000")
    assert answer.refusal == (504, "Timeout")
    assert "Too large resource version" in answer.message


def test_lost_history_is_an_error_event_with_code_410(cluster: Cluster, pending: str) -> None:
    assert cluster.forget is not None
    version = cluster.get(pending).version
    cluster.patch(pending, {"metadata": {"labels": {"a": "1"}}})
    with cluster.watch(PODS, resourceVersion=cluster.forget(version)) as watch:
        ((kind, status),) = list(watch)
    assert watch.code == 200
    assert kind == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
