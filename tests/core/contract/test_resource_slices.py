"""ResourceSlices: the cards of a node as devices."""

from msgspec.structs import replace

from device_plugin.core.contract.resource_slices import resource_slice, slice_name
from tests.builders.cards import FAMILY, card


def test_each_card_is_a_device_that_several_claims_may_share() -> None:
    cards = [card("b", pci="0000:1a:00.0"), card("a", pci="0000:19:00.0")]
    made = resource_slice("n1", FAMILY, cards, 3)
    assert made["metadata"]["name"] == slice_name("n1", FAMILY) == "dcu.vgpu.io-n1"
    assert made["spec"]["pool"] == {"name": "n1", "generation": 3, "resourceSliceCount": 1}
    first, second = made["spec"]["devices"]
    assert (first["name"], second["name"]) == ("card-0000-19-00-0", "card-0000-1a-00-0")
    assert first["allowMultipleAllocations"] is True
    assert first["attributes"]["uuid"] == {"string": "a"}
    assert first["capacity"]["memory"]["value"] == "16384Mi"
    assert first["capacity"]["cores"]["value"] == "60"
    assert "taints" not in first


def test_a_card_that_takes_no_new_slices_is_tainted() -> None:
    cards = [card("a", healthy=False), replace(card("b", pci="0000:1a:00.0"), cordoned=True)]
    found = resource_slice("n1", FAMILY, cards, 1)["spec"]["devices"]
    assert [each["taints"] for each in found] == [
        [{"key": "vgpu.io/unhealthy", "effect": "NoSchedule"}],
        [{"key": "vgpu.io/cordoned", "effect": "NoSchedule"}],
    ]


def test_long_texts_are_cut_to_the_length_that_kubernetes_takes() -> None:
    made = resource_slice("n1", FAMILY, [replace(card("a"), model="m" * 100)], 1)
    assert made["spec"]["devices"][0]["attributes"]["model"] == {"string": "m" * 64}
