"""A namespace that has opted out: no card for its pods, and no word about all others."""

from collections.abc import Iterator

import pytest

from tests.builders.objects import pod
from tests.contract.asking import asking, container, refused
from tests.contract.cluster import PODS, Cluster, namespace, unique


@pytest.fixture
def ignored(cluster: Cluster) -> Iterator[str]:
    """The path of the pods of a namespace that has opted out."""
    with namespace(cluster, {"vgpu.io/admission": "ignore"}) as name:
        yield f"/api/v1/namespaces/{name}/pods"


@pytest.mark.parametrize("tail", ["", "-mem", "-cores", "-percent"])
def test_a_pod_that_asks_is_refused_whatever_it_asks_for(cluster: Cluster, ignored: str, tail: str) -> None:
    body = asking(unique(), containers=[container(limits={f"hygon.com/dcu{tail}": "1"})])
    refused(
        cluster.post(ignored, body),
        "vgpu-opted-out",
        "vgpu.io/admission: ignore, so no pod in it gets a card",
    )


def test_a_pod_that_does_not_ask_is_as_it_was_written(cluster: Cluster, ignored: str) -> None:
    answer = cluster.post(ignored, pod(unique(), schedulerName="theirs"))
    assert answer.code == 201, answer.body
    assert answer.body["spec"]["schedulerName"] == "theirs"


def test_other_namespaces_are_not_meant(cluster: Cluster, name: str) -> None:
    assert cluster.post(PODS, asking(name)).code == 201
    cluster.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
