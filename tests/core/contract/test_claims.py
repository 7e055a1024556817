"""ResourceClaims: what is read of them, and the allocation that is written."""

import json
from typing import Any

import pytest

from device_plugin.core.contract.claims import (
    FINALIZER,
    MAX_RESULTS,
    Claim,
    Device,
    allocation,
    device_class,
    device_name,
    quota_resource,
    read_claim,
)
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.quantities import LONGEST
from tests.builders.cards import FAMILY, card
from tests.builders.claims import CLASS, claim


def test_the_class_and_the_device_have_the_names_of_family_and_address() -> None:
    assert device_class(FAMILY) == CLASS
    assert device_name(card("a", pci="0000:1A:00.0")) == "card-0000-1a-00-0"


def test_a_quota_counts_the_devices_of_a_family_by_its_class() -> None:
    assert quota_resource("hygon.com/dcu") == "dcu.vgpu.io.deviceclass.resource.k8s.io/devices"


def test_a_claim_says_what_it_asks_for() -> None:
    made = claim("own", {"memory": "4Gi", "cores": "15"}, pod_uid="u", count=2)
    assert read_claim(made) == Claim(
        "default", "own", "uid-own", "1", CLASS, "card", 2, "4Gi", "15", pod="u",
    )  # fmt: skip
    assert read_claim(json.dumps(made).encode()) == read_claim(made)


def test_a_claim_says_what_it_was_given() -> None:
    made = claim()
    made["metadata"] |= {"finalizers": [FINALIZER], "deletionTimestamp": "2026-11-21T07:00:00Z"}
    results = [{"request": "card", "driver": CLASS, "pool": "n1", "device": "card-0"}]
    made["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    found = read_claim(made)
    assert (found.devices, found.reserved) == ((Device(CLASS, "n1", "card-0"),), ("u",))
    assert (found.protected, found.deleting, found.ours) == (True, True, True)


def test_of_the_uid_of_an_owner_that_a_tenant_wrote_little_is_kept() -> None:
    assert len(read_claim(claim(pod_uid="u" * 1_000_000)).pod) == 63


def test_of_a_claim_for_another_driver_only_the_name_is_kept() -> None:
    made = claim(deviceClassName="gpu.example.com", selectors=[{"cel": {"expression": "x" * 10_000}}])
    assert read_claim(made) == Claim("default", "slice", "uid-slice", "1")
    assert not read_claim(made).ours


def test_a_claim_that_was_given_a_card_of_ours_is_ours_whatever_it_asks_for() -> None:
    made = claim(deviceClassName="any.example.com")
    made["status"] = {"allocation": {"devices": {"results": [{"driver": CLASS, "pool": "n", "device": "d"}]}}}
    assert read_claim(made).ours


REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"selectors": [{"cel": {"expression": "true"}}]}, "selectors are not served"),
    ({"adminAccess": True}, "adminAccess is not served"),
    ({"allocationMode": "All"}, "allocationMode All is not served"),
    ({"capacity": {}}, "it requests no capacity"),
    ({"capacity": {"memory": "4Gi", "bandwidth": "1"}}, "a card has no capacity bandwidth"),
]


@pytest.mark.parametrize(("asked", "text"), REQUESTS)
def test_a_form_that_is_not_served_has_a_text(asked: dict[str, Any], text: str) -> None:
    found = read_claim(claim(**asked))
    assert found.fault.startswith(text)
    assert found.device_class == ""


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ({"requests": [{"name": "a", "exactly": {"deviceClassName": CLASS}}] * 2}, "it has 2 requests"),
        ({"requests": [{"name": "a", "firstAvailable": [{"deviceClassName": CLASS}]}]}, "firstAvailable"),
        ({"requests": claim()["spec"]["devices"]["requests"], "constraints": [{}]}, "constraints"),
    ],
)
def test_several_requests_and_choices_are_not_served(devices: dict[str, Any], text: str) -> None:
    assert read_claim({**claim(), "spec": {"devices": devices}}).fault.startswith(text)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"metadata": {}}', b'{"metadata": {"name": 1}}'])
def test_json_of_another_form_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_claim(text)


def test_a_long_quantity_is_cut_and_still_refused() -> None:
    found = read_claim(claim(capacity={"memory": "1" * 10_000}))
    assert len(found.memory) == LONGEST + 1


def test_an_allocation_names_the_card_and_what_is_taken_of_it() -> None:
    cards = [card("a", pci="0000:19:00.0"), card("b", pci="0000:1a:00.0")]
    given = [(Slice(each.uuid, 4092, tuple(range(15))), each) for each in cards]
    asked = read_claim(claim(count=2))
    written = allocation(asked, "n1", given, ["share-a", "share-b"])
    assert written["devices"]["results"] == [
        {
            "request": "card", "driver": CLASS, "pool": "n1", "device": f"card-0000-{bus}-00-0", "shareID": share,
            "consumedCapacity": {"memory": "4096Mi", "cores": "15"},
        }
        for bus, share in (("19", "share-a"), ("1a", "share-b"))
    ]  # fmt: skip
    read = read_claim({**claim(count=2), "status": {"allocation": written}})
    assert read.devices == (
        Device(CLASS, "n1", "card-0000-19-00-0"),
        Device(CLASS, "n1", "card-0000-1a-00-0"),
    )
    assert len(read.devices) <= MAX_RESULTS
