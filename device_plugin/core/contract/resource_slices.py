"""ResourceSlices: the objects of resource.k8s.io by which a node's agent shows its cards as devices."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import CORES, GROUP, MEMORY, VERSION, device_class, device_name

# The longest text of an attribute (k8s.io/api/resource/v1, DeviceAttributeMaxValueLength).
_LONGEST = 64


class StoredSlice(NamedTuple):
    """A ResourceSlice as the API server has it: its name, driver, version, and the generation of its node's cards."""

    name: str
    driver: str
    version: str
    generation: int


def read_slice(found: Mapping[str, Any]) -> StoredSlice:
    """The StoredSlice in the JSON of a ResourceSlice. Raises KeyError, TypeError or ValueError for another form."""
    meta, spec = found["metadata"], found["spec"]
    return StoredSlice(
        str(meta["name"]), str(spec["driver"]), str(meta["resourceVersion"]), int(spec["pool"]["generation"])
    )


def slice_name(node: str, family: str) -> str:
    """The name of the ResourceSlice with the cards of a family on a node: `dcu.vgpu.io-n1`."""
    return f"{device_class(family)}-{node}"


def owned_by_node(body: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """The JSON of a ResourceSlice that Kubernetes removes with the Node of this UID; the node is named in the spec."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": body["spec"]["nodeName"], "uid": uid}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}


def resource_slice(node: str, family: str, cards: Iterable[Card], generation: int) -> dict[str, Any]:
    """The JSON of the ResourceSlice with the `cards` of one family on a node.

    Each card is a device that several claims may share. Its memory is the sum of its memory units, each of the card's
    `unit_mib` MiB, and its cores are its core groups. A card that takes no new slices has a taint. `generation` grows
    with each change of the node's cards.
    """
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name(node, family)},
        "spec": {
            "driver": device_class(family),
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [_device(card) for card in sorted(cards, key=lambda card: card.pci)],
        },
    }


def _device(card: Card) -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": device_name(card),
        "allowMultipleAllocations": True,
        "attributes": {
            "model": {"string": card.model[:_LONGEST]},
            "uuid": {"string": card.uuid[:_LONGEST]},
            "family": {"string": card.family[:_LONGEST]},
            "unitMiB": {"int": card.unit_mib},
            # The name that drivers of several makers share (k8s.io/dynamic-resource-allocation, deviceattribute).
            "resource.kubernetes.io/pciBusID": {"string": card.pci[:_LONGEST]},
        },
        "capacity": {
            MEMORY: _capacity(f"{card.units * card.unit_mib}Mi", f"{card.unit_mib}Mi"),
            CORES: _capacity(str(card.core_groups), "1"),
        },
    }
    if not card.open:
        cause = "unhealthy" if not card.healthy else "cordoned"
        device["taints"] = [{"key": f"vgpu.io/{cause}", "effect": "NoSchedule"}]
    return device


def _capacity(value: str, step: str) -> dict[str, Any]:
    """The JSON of a device's capacity, of which ResourceClaims take multiples of `step`."""
    return {"value": value, "requestPolicy": {"default": step, "validRange": {"min": step, "step": step}}}
