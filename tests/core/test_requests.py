"""Requests: what limits ask for, and what to write instead of what is malformed."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from device_plugin.core.contract import units
from device_plugin.core.errors import RequestError
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import (
    ANNOTATIONS,
    DEFAULT_PREFIXES,
    LABELS,
    MAX_CONTAINER_CARDS,
    MAX_COUNT,
    SUFFIXES,
    Request,
    family_of,
    pod_request,
)
from vgpu_runtime import config

DCU = "hygon.com/dcu"


def pod(
    limits: dict[str, str],
    kind: ContainerKind = ContainerKind.MAIN,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    return Pod("ns", "p", "uid", annotations=annotations, containers=(Container("main", kind, limits),))


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({f"{DCU}": "2"}, Request(DCU, 2)),
        ({f"{DCU}-mem": "4"}, Request(DCU, 0, 4)),
        ({f"{DCU}-cores": "15", "cpu": "500m"}, Request(DCU, 0, None, 15)),
        ({f"{DCU}-mem": "4k", f"{DCU}-cores": "1e1"}, Request(DCU, 0, 4000, 10)),
        ({"hygon.com/hcu-mem": "4"}, Request("hygon.com/hcu", 0, 4)),
        ({f"{DCU}-percent": "25"}, Request(DCU, percent=25)),
        ({f"{DCU}-percent": "100", f"{DCU}-slices": "1"}, Request(DCU, percent=100)),
        ({f"{DCU}-mem": "4", f"{DCU}-slices": "1"}, Request(DCU, 0, 4)),
        ({f"{DCU}": "2", f"{DCU}-slices": "8"}, Request(DCU, 2, max_slices=4)),
    ],
)
def test_limits_are_read(limits: dict[str, str], request_: Request) -> None:
    asked = pod_request(pod(limits), DEFAULT_PREFIXES)
    assert asked is not None
    assert asked.containers == (("main", request_),)


@pytest.mark.parametrize("limits", [{}, {"cpu": "1"}, {"other.com/dcu": "1"}, {"hygon.com/dcu-memory": "1"}])
def test_a_pod_that_does_not_ask_is_none_of_ours(limits: dict[str, str]) -> None:
    assert pod_request(pod(limits), DEFAULT_PREFIXES) is None


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "500m", "", "four", "-1E", "1e", "1Eii", "9" * 33, "2Gi ib", "Infinity", "0x4"]
)
def test_a_count_that_is_not_a_whole_number_of_at_least_1_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"container main: hygon.com/dcu-mem is .*write a whole number"):
        pod_request(pod({f"{DCU}-mem": text}), DEFAULT_PREFIXES)


@pytest.mark.parametrize(
    "text", ["2147483649", "3000000000", "1E", "4P", "1Ei", "2Pi", "9223372036854775807", "9" * 32, "1e99"]
)
def test_more_than_any_card_has_is_the_most_that_counts(text: str) -> None:
    asked = pod_request(pod({f"{DCU}-mem": text, f"{DCU}-cores": text}), DEFAULT_PREFIXES)
    assert asked is not None
    assert asked.containers == (("main", Request(DCU, 0, MAX_COUNT, MAX_COUNT)),)


def test_mixed_two_families_and_init_containers_are_refused_with_the_cure() -> None:
    with pytest.raises(RequestError, match=r"write either hygon.com/dcu: N .* or hygon.com/dcu-mem"):
        pod_request(pod({DCU: "1", f"{DCU}-mem": "4"}), DEFAULT_PREFIXES)
    with pytest.raises(RequestError, match="ask for one kind of card"):
        pod_request(pod({f"{DCU}-mem": "4", "hygon.com/hcu-mem": "4"}), DEFAULT_PREFIXES)
    with pytest.raises(RequestError, match="ask in a main container, or make it a sidecar"):
        pod_request(pod({f"{DCU}-mem": "4"}, ContainerKind.INIT), DEFAULT_PREFIXES)
    assert pod_request(pod({f"{DCU}-mem": "4"}, ContainerKind.SIDECAR), DEFAULT_PREFIXES) is not None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"": "1", "-percent": "25"}, r"write either hygon.com/dcu: N .* or hygon.com/dcu-percent"),
        ({"-mem": "4", "-percent": "25"}, "percent counts for both; write either hygon.com/dcu-percent, or"),
        ({"-cores": "4", "-percent": "25"}, "percent counts for both"),
        ({"-percent": "101"}, "hygon.com/dcu-percent is 101: write 1 to 100"),
        ({"-percent": "0"}, "write a whole number of at least 1"),
        ({"-slices": "1"}, "hygon.com/dcu-slices alone, which only counts slices for a quota: write also"),
        ({"-mem": "4", "-slices": "2"}, "hygon.com/dcu-slices is 2, and it asks for one slice: write 1"),
        ({"-percent": "4", "-slices": "2"}, "it asks for one slice: write 1"),
        ({"": "2", "-slices": "7"}, "is 7 for 2 whole cards: write all slices that these cards can give"),
    ],
)
def test_amounts_that_do_not_go_together_are_refused_with_the_cure(
    limits: Mapping[str, str], words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        pod_request(pod({DCU + suffix: count for suffix, count in limits.items()}), DEFAULT_PREFIXES)


@pytest.mark.parametrize(
    ("slices", "limits", "request_"),
    [
        ("2", {"-mem": "8", "-cores": "30"}, Request(DCU, 0, 4, 15, count=2)),
        ("2", {"-percent": "150", "-slices": "2"}, Request(DCU, percent=75, count=2)),
        ("16", {"-percent": "1600"}, Request(DCU, percent=100, count=16)),
        ("1", {"-mem": "3"}, Request(DCU, 0, 3)),
    ],
)
def test_limits_of_several_slices_are_their_sum(
    slices: str, limits: Mapping[str, str], request_: Request
) -> None:
    asked = pod_request(
        pod(
            {DCU + suffix: count for suffix, count in limits.items()}, annotations={"vgpu.io/slices": slices}
        ),
        DEFAULT_PREFIXES,
    )
    assert asked is not None
    assert asked.containers == (("main", request_),)


@pytest.mark.parametrize(
    ("slices", "limits", "words"),
    [
        (
            "2",
            {"-mem": "7"},
            r"hygon.com/dcu-mem is 7 for 2 slices \(annotation vgpu.io/slices\): write the sum",
        ),
        ("3", {"-mem": "6", "-cores": "10", "-slices": "3"}, "dcu-cores is 10 for 3 slices"),
        ("2", {"-percent": "201"}, "dcu-percent is 201 for 2 slices"),
        ("2", {"-percent": "202"}, "dcu-percent is 202: write 1 to 100"),
        ("2", {"": "2"}, "asks for whole cards: leave out the annotation vgpu.io/slices"),
        ("2", {"-mem": "4", "-slices": "1"}, "-slices is 1, and it asks for 2 slices: write 2"),
        ("17", {"-mem": "17"}, "vgpu.io/slices is '17': write a whole number from 1 to 16"),
        ("0", {"-mem": "4"}, "write a whole number from 1 to 16"),
        ("two" * 1000, {"-mem": "4"}, "write a whole number from 1 to 16"),
    ],
)
def test_several_slices_that_are_not_equal_are_refused(
    slices: str, limits: Mapping[str, str], words: str
) -> None:
    body = pod(
        {DCU + suffix: count for suffix, count in limits.items()}, annotations={"vgpu.io/slices": slices}
    )
    with pytest.raises(RequestError, match=words) as refused:
        pod_request(body, DEFAULT_PREFIXES)
    assert len(str(refused.value)) < 300


def test_several_slices_are_of_one_container() -> None:
    containers = tuple(Container(name, ContainerKind.MAIN, {f"{DCU}-mem": "4"}) for name in ("a", "b"))
    body = replace(pod({}, annotations={"vgpu.io/slices": "2"}), containers=containers)
    with pytest.raises(RequestError, match="2 containers ask for slices: leave it out, or ask in one"):
        pod_request(body, DEFAULT_PREFIXES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_family_of_each_of_its_resources(suffix: str) -> None:
    assert family_of(DCU + suffix) == DCU


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request(DCU, 0, 4, 15), f"{DCU}-mem: 4, {DCU}-cores: 15"),
        (Request(DCU, percent=25), f"{DCU}-percent: 25"),
        (Request(DCU, 2, max_slices=4), f"{DCU}: 2, {DCU}-slices: 8"),
        (Request(DCU, 0, 4, 15, count=2), f"{DCU}-mem: 8, {DCU}-cores: 30 on 2 cards"),
    ],
)
def test_a_request_is_shown_as_it_was_written(request_: Request, text: str) -> None:
    assert str(request_) == text


def test_a_container_cannot_ask_for_more_cards_than_its_config_has_places_for() -> None:
    assert MAX_CONTAINER_CARDS == config.MAX_CARDS
    assert pod_request(pod({DCU: "16"}), DEFAULT_PREFIXES) is not None
    with pytest.raises(RequestError, match="main asks for 17 whole cards: a container can hold at most 16"):
        pod_request(pod({DCU: "17"}), DEFAULT_PREFIXES)


def test_annotations_select_cards_and_policy() -> None:
    notes = {"vgpu.io/card-model": "Z100, !K100", "vgpu.io/card-uuid": "!a,!b", "vgpu.io/policy": "spread"}
    asked = pod_request(pod({f"{DCU}-mem": "4"}, annotations=notes), DEFAULT_PREFIXES)
    assert asked is not None
    assert asked.policy == "spread"
    assert (asked.models.include, asked.models.exclude) == (frozenset({"Z100"}), frozenset({"K100"}))
    assert [asked.uuids.accepts(u) for u in "abc"] == [False, False, True]
    assert not asked.models.accepts_model("MI300X")


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("vgpu.io/card-model", 4096),
        ("vgpu.io/card-uuid", 4096),
        ("vgpu.io/policy", 63),
        ("vgpu.io/app-type", 63),
    ],
)
def test_annotations_are_as_long_as_anybody_needs(key: str, most: int) -> None:
    """Kubernetes keeps 256 KiB, and a refusal would repeat them for each node."""
    assert pod_request(pod({f"{DCU}-mem": "4"}, annotations={key: "x" * most}), DEFAULT_PREFIXES) is not None
    with pytest.raises(
        RequestError, match=f"annotation {key} is too long: write at most .*{most} characters$"
    ):
        pod_request(pod({f"{DCU}-mem": "4"}, annotations={key: "x" * (most + 1)}), DEFAULT_PREFIXES)


@pytest.mark.parametrize("key", LABELS)
def test_an_annotation_that_should_be_a_label_is_not_passed_over(key: str) -> None:
    with pytest.raises(RequestError, match=f"^annotation {key}: write a label instead$"):
        pod_request(pod({f"{DCU}-mem": "4"}, annotations={key: "1"}), DEFAULT_PREFIXES)


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_a_label_that_should_be_an_annotation_is_not_passed_over(key: str) -> None:
    labelled = replace(pod({f"{DCU}-mem": "4"}), labels={key: "1"})
    with pytest.raises(RequestError, match=f"^label {key}: write an annotation instead$"):
        pod_request(labelled, DEFAULT_PREFIXES)


@given(st.integers(1, 2**22), st.integers(1, 2**14), st.integers(1, 8))
def test_equal_parts_of_a_card_always_fit(mem_mib: int, unit_mib: int, parts: int) -> None:
    total = units.unit_count(mem_mib, unit_mib)
    share = total // parts
    assert parts * units.units_to_mib(share, mem_mib, total) <= mem_mib
    assert units.units_to_mib(total, mem_mib, total) == mem_mib
    granted = units.units_to_mib(share, mem_mib, total)
    assert units.mib_to_units(granted, mem_mib, total) == share, "all of it is enough"
    assert units.mib_to_units(granted - 1, mem_mib, total) == share - 1, "1 MiB less is not"


def test_real_cards_have_round_numbers_of_units() -> None:
    assert [units.unit_count(mib) for mib in (16368, 65520, 196592, 512)] == [16, 64, 192, 1]
    assert units.units_to_mib(4, 16368, 16) == 4092
    with pytest.raises(ValueError, match="must be positive"):
        units.unit_count(0)


def test_equal_limits_are_one_request_in_memory_whatever_else_is_limited() -> None:
    one, other = (
        pod_request(pod({**more, f"{DCU}-mem": "4"}), DEFAULT_PREFIXES) for more in ({}, {"cpu": "1"})
    )
    assert one is not None
    assert other is not None
    assert one.containers[0][1] is other.containers[0][1]
