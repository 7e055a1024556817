"""Requests from claims: a claim asks for the same slice as limits."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.claims import MAX_CLAIMS, ClaimRequests, UnknownClaimError
from device_plugin.core.contract.annotations import GROUP, GROUP_SIZE, SLICES
from device_plugin.core.contract.claims import Claim, read_claim
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, PodRequest, pod_request
from tests.builders.cards import CORES, FAMILY, MEM, preparing
from tests.builders.claims import claim, claim_pod
from tests.builders.pods import pod


def requested(asked: Pod, *claims: dict[str, Any], unit_mib: int = 1024) -> PodRequest | None:
    """The request of the pod where these claims exist."""
    known: dict[tuple[str, str], Claim] = {}
    for each in claims:
        found = read_claim(each)
        known[found.key] = found
    source = ClaimRequests(DEFAULT_PREFIXES, lambda *key: known.get(key), unit_mib)
    return pod_request(asked, DEFAULT_PREFIXES, source)


def using(*names: tuple[str, ...], claims: dict[str, str] | None = None, **more: Any) -> Pod:
    """A pod whose containers c0, c1, ... use these names of spec.resourceClaims."""
    containers = tuple(Container(f"c{n}", ContainerKind.MAIN, {}, used) for n, used in enumerate(names))
    return pod("p", **{"containers": containers, "claims": claims or {"gpu": "slice"}, **more})


def test_a_claim_asks_for_the_same_slice_as_limits_and_gets_the_same_decision() -> None:
    ledger = Ledger()
    ledger.set_node("n1", preparing("n1"))
    by_claim = requested(claim_pod("p"), claim(capacity={"memory": "4Gi", "cores": "15"}))
    by_limits = requested(pod("p", 4, 15))
    assert by_claim is not None
    assert by_limits is not None
    assert replace(by_claim, claims=()) == by_limits
    made, same = (Placer(ledger).place(each) for each in (by_claim, by_limits))
    assert isinstance(made, Grant)
    assert isinstance(same, Grant)
    assert (made.containers, made.cards) == (same.containers, same.cards)
    assert (made.claims, same.claims) == ({"main": "uid-slice"}, {})


@pytest.mark.parametrize(
    ("capacity", "unit", "mem", "cores"),
    [
        ({"memory": "4Gi", "cores": "15"}, 1024, 4, 15),
        ({"memory": "4.1Gi"}, 1024, 5, None),
        ({"memory": "1"}, 1024, 1, None),
        ({"cores": "15"}, 1024, None, 15),
        ({"memory": "4Gi"}, 256, 16, None),
        ({"cores": "1500m"}, 1024, None, 2),
        ({"memory": "9999999Ei"}, 1024, 2**31, None),
    ],
)
def test_amounts_are_rounded_up(
    capacity: dict[str, str], unit: int, mem: int | None, cores: int | None
) -> None:
    found = requested(claim_pod("p"), claim(capacity=capacity), unit_mib=unit)
    assert found is not None
    ((_, asked),) = found.containers
    assert (asked.family, asked.mem, asked.cores, asked.count) == (FAMILY, mem, cores, 1)


def test_a_count_asks_for_as_many_cards() -> None:
    found = requested(claim_pod("p"), claim(count=2))
    assert found is not None
    assert found.containers[0][1].cards == 2


CLAIMED = [claim(), claim("b")]


@pytest.mark.parametrize(
    ("asked", "claims", "text"),
    [
        (using(("gpu", "b")), CLAIMED, "uses several claims: write one claim"),
        (using(("gpu",), ("gpu",)), CLAIMED, "claim gpu is used by several containers"),
        (
            using(("gpu",), ("again",), claims={"gpu": "slice", "again": "slice"}),
            CLAIMED,
            "claim gpu is used by several containers",
        ),
        (
            using(("gpu",), claims={"gpu": "slice", "b": "b"}),
            CLAIMED,
            "claim b is used by no container: name it in resources.claims",
        ),
        (using((), claims={"gpu": "slice"}), CLAIMED, "claim gpu is used by no container"),
        (using(("other",)), CLAIMED, "uses claim other, which spec.resourceClaims does not have"),
        (using(("gpu",)), [claim(allocationMode="All")], "ResourceClaim slice: allocationMode All"),
        (using(("gpu",)), [claim(pod_uid="another")], "was made for another pod"),
        (using(("gpu",)), [claim(deviceClassName="no.vgpu.io")], "names the device class no.vgpu.io"),
        (using(("gpu",)), [claim(count=17)], "count is 17: write 1 to 16"),
        (using(("gpu",)), [claim(capacity={"memory": "-1Gi"})], "memory is '-1Gi'"),
        (using(("gpu",)), [claim(capacity={"memory": "lots"})], "memory is 'lots'"),
        (
            using(("gpu",), containers=(Container("c0", ContainerKind.MAIN, {}, ("gpu",), ("other",)),)),
            CLAIMED,
            "uses a request of ResourceClaim slice that it does not have: leave `request` out",
        ),
        (using(("gpu",), labels={GROUP: "g", GROUP_SIZE: "2"}), CLAIMED, "are placed one by one"),
        (
            using(("gpu",), ("b",), claims={"gpu": "slice", "b": "b"}),
            [claim(count=2), claim("b")],
            "container c0 asks for slices of several cards, and other containers ask too",
        ),
        (using(("gpu",), annotations={SLICES: "2"}), CLAIMED, "write `count` in the claim"),
        (
            using(("gpu",), claims={"gpu": "slice", **{f"c{n}": "x" for n in range(MAX_CLAIMS)}}),
            CLAIMED,
            f"uses more than {MAX_CLAIMS} claims",
        ),
    ],
)
def test_what_is_not_served_is_refused_with_what_to_write(
    asked: Pod, claims: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(RequestError, match=text.replace("`", ".").replace("(", ".")) as refused:
        requested(asked, *claims)
    assert not isinstance(refused.value, UnknownClaimError)


def test_limits_and_a_claim_in_one_container_are_refused() -> None:
    both = Container("main", ContainerKind.MAIN, {MEM: "4", CORES: "15"}, ("gpu",))
    with pytest.raises(RequestError, match="in limits and in a claim"):
        requested(claim_pod("p", containers=(both,)), claim())


def test_an_init_container_with_a_claim_is_refused() -> None:
    init = Container("init", ContainerKind.INIT, {}, ("gpu",))
    with pytest.raises(RequestError, match="an init container cannot hold a slice"):
        requested(claim_pod("p", containers=(init,)), claim())


@pytest.mark.parametrize("name", ["", "slice"])
def test_a_claim_that_is_not_known_is_waited_for(name: str) -> None:
    shown = "the ResourceClaim of its claim gpu" if not name else "ResourceClaim slice"
    with pytest.raises(UnknownClaimError, match=f"container main waits for {shown}: it does not exist yet"):
        requested(claim_pod("p", name))


def test_a_container_may_name_the_one_request_of_its_claim() -> None:
    named = Container("main", ContainerKind.MAIN, {}, ("gpu",), ("card",))
    assert requested(claim_pod("p", containers=(named,)), claim()) is not None


def test_containers_with_claims_and_with_limits_are_placed_together() -> None:
    limited = Container("limited", ContainerKind.MAIN, {MEM: "4"})
    claimed = Container("claimed", ContainerKind.MAIN, {}, ("gpu",))
    found = requested(claim_pod("p", containers=(limited, claimed)), claim())
    assert found is not None
    assert [name for name, _ in found.containers] == ["limited", "claimed"]
    assert found.claims == (("claimed", "uid-slice"),)


NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.text("abcdef0123456789-", min_size=1, max_size=36)


@given(st.dictionaries(NAMES, TEXTS, max_size=4), TEXTS)
def test_the_claims_of_a_grant_are_read_as_they_were_written(claims: dict[str, str], uid: str) -> None:
    containers = {name: (Slice(f"card-{name}", 1024, (0, 1)),) for name in ("a", "b", "c", "d")}
    made = Grant(uid, "n1", containers, claims=claims)
    assert Grant.decode(made.encode()) == made
    assert ('"claims"' in made.encode()) is bool(claims)
