"""Namespaces with the label vgpu.io/quota: strict: all that a quota may count is written."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.cards import CORES, FAMILY, MEM, PERCENT, SLICES
from tests.contract.asking import asking, container, refused
from tests.contract.cluster import Cluster, namespace


@pytest.fixture(scope="module")
def strict(cluster: Cluster) -> Iterator[str]:
    """The path of the pods of such a namespace."""
    with namespace(cluster, {"vgpu.io/quota": "strict"}) as name:
        yield f"/api/v1/namespaces/{name}/pods"


@pytest.mark.parametrize(
    ("slices", "limits", "words"),
    [
        (
            "",
            {MEM: "4", SLICES: "1"},
            "a quota counts memory and core groups: write hygon.com/dcu-cores too, or",
        ),
        ("", {CORES: "4", SLICES: "1"}, "write hygon.com/dcu-mem too, or hygon.com/dcu-percent for both"),
        (
            "",
            {MEM: "4", CORES: "4"},
            "main: in this namespace (label vgpu.io/quota: strict) a quota counts slices",
        ),
        ("", {MEM: "4", CORES: "4"}, "write hygon.com/dcu-slices: 1"),
        ("", {PERCENT: "25"}, "write hygon.com/dcu-slices: 1"),
        ("2", {PERCENT: "50"}, "write hygon.com/dcu-slices: 2"),
        (
            "",
            {FAMILY: "3"},
            "write hygon.com/dcu-slices: 12, all slices that its whole cards can give (4 each",
        ),
        ("", {"hygon.com/hcu": "1"}, "write hygon.com/hcu-slices: 4, all slices"),
    ],
)
def test_what_a_quota_would_not_see_is_refused_with_what_to_write(
    cluster: Cluster, strict: str, name: str, slices: str, limits: dict[str, str], words: str
) -> None:
    body = asking(name, containers=[container("side", limits={}), container(limits=limits)])
    body["metadata"]["annotations"] = {"vgpu.io/slices": slices} if slices else {}
    refused(cluster.post(strict, body), "vgpu-quota", words)


def test_slices_alone_are_refused_there_too(cluster: Cluster, strict: str, name: str) -> None:
    body = asking(name, containers=[container(limits={SLICES: "1"})])
    refused(cluster.post(strict, body), "vgpu-requests", "asks for hygon.com/dcu-slices alone")


@pytest.mark.parametrize(
    "limits",
    [
        {MEM: "4", CORES: "4", SLICES: "1"},
        {PERCENT: "25", SLICES: "1"},
        {FAMILY: "2", SLICES: "8"},
        {"cpu": "1"},
    ],
)
def test_what_is_wholly_written_is_let_in(
    cluster: Cluster, strict: str, name: str, limits: dict[str, str]
) -> None:
    answer = cluster.post(strict, asking(name, containers=[container(limits=limits)]))
    assert answer.code == 201, answer.body


def test_elsewhere_a_half_is_enough(name: str, accepted: Any) -> None:
    accepted(asking(name, containers=[container(limits={CORES: "1"})]))
