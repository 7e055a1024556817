"""Reads the request and the allocation of a ResourceClaim, and builds the allocation that the allocator writes.

The group resource.k8s.io, version v1, as Kubernetes 1.36 has it (dynamic resource allocation with consumable capacity,
KEP-4381 and KEP-5075). The allocation in a claim is a copy: the grant on its pod decides.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.quantities import LONGEST

GROUP, VERSION = "resource.k8s.io", "v1"
# The domain of our drivers; a driver has the name of its card family's DeviceClass.
DOMAIN = ".vgpu.io"
# The names of a card's capacities.
MEMORY, CORES = "memory", "cores"
# The finalizer without which Kubernetes' claim controller does not clear the allocation when the pod has ended
# (k8s.io/api/resource/v1, Finalizer).
FINALIZER = "resource.kubernetes.io/delete-protection"
# Most results of an allocation (k8s.io/api/resource/v1, AllocationResultsMaxSize).
MAX_RESULTS = 32
# Characters of a text that a refusal repeats.
_SHOWN = 63
# Characters that are kept of an owner's UID: a pod's has 36, but a tenant may write an owner with 1 MiB.
_LONGEST_UID = 63


def device_class(family: str) -> str:
    """The name that a card family's DeviceClass and driver have: `dcu.vgpu.io` for `hygon.com/dcu`."""
    return family.rpartition("/")[2] + DOMAIN


def quota_resource(family: str) -> str:
    """The name by which a ResourceQuota counts the slices that claims ask of a card family, whatever their size."""
    return f"{device_class(family)}.deviceclass.resource.k8s.io/devices"


def is_ours(name: str) -> bool:
    """True if this is the name of a device class, or of a driver, of this project."""
    return name.endswith(DOMAIN)


def device_name(card: Card) -> str:
    """The name of a card as a device of its node: `card-0000-03-00-0`, a DNS label made of its PCI address."""
    return "card-" + "".join(c if c.isalnum() else "-" for c in card.pci.lower())


class Device(Struct, frozen=True, gc=False):
    """A device in a claim's allocation: its driver, its pool (the node's name), and its name in the pool."""

    driver: str
    pool: str
    device: str


class Claim(Struct, frozen=True, gc=False):
    """A ResourceClaim that names a device class of ours, or was given a device of ours.

    - `request` is the name of its one request; `memory` and `cores` are the capacities that it requests of each of
      `count` devices, as written, or empty. `fault` says what to write instead if it asks in a way that is not served.
    - `pod` is the UID of the pod for which Kubernetes made the claim from a template; empty for a claim that a person
      made.
    - `devices` are the devices in its allocation, `reserved` the UIDs of the pods in its status.
    - `protected` is true if it has the finalizer FINALIZER.
    """

    namespace: str
    name: str
    uid: str
    version: str
    device_class: str = ""
    request: str = ""
    count: int = 1
    memory: str = ""
    cores: str = ""
    fault: str = ""
    pod: str = ""
    devices: tuple[Device, ...] = ()
    reserved: tuple[str, ...] = ()
    protected: bool = False
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def ours(self) -> bool:
        """True if the ResourceClaim asks for a device class of ours, or was given a device of a driver of ours."""
        return bool(self.device_class or self.fault) or any(is_ours(each.driver) for each in self.devices)


class AllocatedDevice(Struct, frozen=True, gc=False):
    """A device in a ResourceClaim's allocation: the claim's request, driver, pool (node), device name and share.

    Each claim that uses a part of a device has a share of its own, with a UUID.
    """

    request: str
    driver: str
    pool: str
    device: str
    share: str


class Allocation(Struct, frozen=True, gc=False):
    """A ResourceClaim's UID, the devices that it was given, and the names and UIDs of the pods that may use them."""

    uid: str
    devices: tuple[AllocatedDevice, ...] = ()
    pods: tuple[tuple[str, str], ...] = ()


class _Raw(Struct, rename="camel", gc=False):
    pass


class _RawCapacity(_Raw):
    requests: dict[str, str | int] | None = None


class _RawExactly(_Raw):
    device_class_name: str = ""
    selectors: list[Any] | None = None
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool | None = None
    capacity: _RawCapacity | None = None


class _RawChoice(_Raw):
    device_class_name: str = ""


class _RawRequest(_Raw):
    name: str = ""
    exactly: _RawExactly | None = None
    first_available: list[_RawChoice] | None = None

    @property
    def classes(self) -> Sequence[str]:
        """The device classes that the request names."""
        exactly = [self.exactly.device_class_name] if self.exactly else []
        return [*exactly, *(each.device_class_name for each in self.first_available or ())]


class _RawDevices(_Raw):
    requests: list[_RawRequest] | None = None
    constraints: list[Any] | None = None


class _RawSpec(_Raw):
    devices: _RawDevices = msgspec.field(default_factory=_RawDevices)


class _RawResult(_Raw):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")


class _RawResults(_Raw):
    results: list[_RawResult] | None = None


class _RawAllocation(_Raw):
    devices: _RawResults = msgspec.field(default_factory=_RawResults)


class _RawConsumer(_Raw):
    name: str = ""
    uid: str = ""


class _RawStatus(_Raw):
    allocation: _RawAllocation | None = None
    reserved_for: list[_RawConsumer] | None = None

    @property
    def results(self) -> Sequence[_RawResult]:
        """The devices in the allocation."""
        return (self.allocation.devices.results or ()) if self.allocation else ()


class _RawOwner(_Raw):
    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class _RawMeta(_Raw):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_RawOwner] | None = None


class _RawClaim(_Raw):
    metadata: _RawMeta
    # The text of a _RawSpec.
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _RawStatus = msgspec.field(default_factory=_RawStatus)


class _RawEvent(_Raw):
    type: str
    object: _RawClaim


_decoder, _event_decoder = msgspec.json.Decoder(_RawClaim), msgspec.json.Decoder(_RawEvent)
_spec_decoder = msgspec.json.Decoder(_RawSpec)
# Bytes of a spec that is remembered; longer ones, of which a tenant may write thousands, are read anew.
_SHORT = 512


def read_claim_event(line: bytes) -> tuple[str, Claim]:
    """The type and the ResourceClaim of a watch event, read in one pass. Raises ValueError if it has no whole claim."""
    try:
        raw = _event_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    return raw.type, _claim(raw.object)


def read_claim(found: Mapping[str, Any] | bytes | bytearray | msgspec.Raw) -> Claim:
    """The claim in the JSON of a ResourceClaim, an object or its text. Raises ValueError if the JSON has another form.

    A claim that is not ours keeps only its identity: a cluster may have thousands of them.
    """
    return _claim(_raw(found))


def _claim(raw: _RawClaim) -> Claim:
    meta, status = raw.metadata, raw.status
    asked, devices = _asks(bytes(raw.spec)), _devices(status)
    if not asked and not any(is_ours(each.driver) for each in devices):
        return Claim(meta.namespace, meta.name, meta.uid, meta.resource_version)
    owner = next((o for o in meta.owner_references or () if o.controller and o.kind == "Pod"), _RawOwner())
    return Claim(
        meta.namespace, meta.name, meta.uid, meta.resource_version,
        pod=owner.uid[:_LONGEST_UID],
        devices=devices,
        reserved=tuple([each.uid for each in status.reserved_for or ()]),
        protected=FINALIZER in (meta.finalizers or ()),
        deleting=meta.deletion_timestamp is not None,
        **asked,
    )  # fmt: skip


def _devices(status: _RawStatus) -> tuple[Device, ...]:
    return tuple([Device(each.driver, each.pool, each.device) for each in status.results])


def read_allocation(found: Mapping[str, Any]) -> Allocation:
    """The allocation in the JSON of a ResourceClaim. Raises ValueError if the JSON has another form."""
    raw = _raw(found)
    return Allocation(
        raw.metadata.uid,
        tuple(
            AllocatedDevice(each.request, each.driver, each.pool, each.device, each.share_id)
            for each in raw.status.results
        ),
        tuple((each.name, each.uid) for each in raw.status.reserved_for or ()),
    )


def _raw(found: Mapping[str, Any] | bytes | bytearray | msgspec.Raw) -> _RawClaim:
    try:
        return _decoder.decode(msgspec.json.encode(found) if isinstance(found, Mapping) else found)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def _asks(spec: bytes) -> Mapping[str, Any]:
    """The fields of a Claim that hold its request; none if it names no device class of ours. Raises ValueError."""
    return (_remembered if len(spec) <= _SHORT else _read_spec)(spec)


def _read_spec(spec: bytes) -> Mapping[str, Any]:
    try:
        devices = _spec_decoder.decode(spec).devices
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    requests = devices.requests or []
    if not any(is_ours(name) for each in requests for name in each.classes):
        return {}
    if fault := _fault(devices, requests):
        return {"fault": fault}
    (asked,) = requests
    exactly = asked.exactly or _RawExactly()
    wanted = (exactly.capacity or _RawCapacity()).requests or {}
    return {
        "device_class": exactly.device_class_name,
        "request": asked.name,
        "count": exactly.count,
        # One character beyond the longest quantity that is read, so that a longer one is still refused.
        "memory": str(wanted.get(MEMORY, ""))[: LONGEST + 1],
        "cores": str(wanted.get(CORES, ""))[: LONGEST + 1],
    }


# Claims that are made from templates have only a few distinct specs, and each change shows the spec again.
_remembered = lru_cache(4096)(_read_spec)


def _fault(devices: _RawDevices, requests: Sequence[_RawRequest]) -> str:
    """The reason why a ResourceClaim of this form is not served, with what to write instead; empty if it is served."""
    if len(requests) != 1:
        return f"it has {len(requests)} requests: write one claim for each, and name it in the container that uses it"
    (asked,) = requests
    exactly = asked.exactly
    if exactly is None:
        return "firstAvailable is not served: write `exactly`, with one deviceClassName"
    if devices.constraints:
        return (
            "constraints are not served: leave them out; the slices of a claim are always of different cards"
        )
    if exactly.selectors:
        return (
            "selectors are not served: choose cards by the annotations vgpu.io/card-model and vgpu.io/card-uuid of the"
            " pod"
        )
    if exactly.admin_access:
        return "adminAccess is not served: leave it out"
    if exactly.allocation_mode not in ("", "ExactCount"):
        mode = exactly.allocation_mode[:_SHOWN]
        return f"allocationMode {mode} is not served: write `count`, or leave it out for one slice"
    wanted = (exactly.capacity or _RawCapacity()).requests or {}
    if not wanted:
        return "it requests no capacity: write capacity.requests, such as {memory: 4Gi, cores: 15}"
    if strange := sorted(wanted.keys() - {MEMORY, CORES}):
        return f"a card has no capacity {strange[0][:_SHOWN]}: write memory or cores"
    return ""


def allocation(
    claim: Claim, node: str, given: Sequence[tuple[Slice, Card]], shares: Sequence[str]
) -> dict[str, Any]:
    """The JSON of `status.allocation` that gives the ResourceClaim these slices, each with its card, on this node.

    `shares` are new UUIDs, one for each slice. A capacity is consumed in whole memory units, as the card's
    ResourceSlice counts it.
    """
    results = [
        {
            "request": claim.request,
            "driver": claim.device_class,
            "pool": node,
            "device": device_name(card),
            "shareID": share,
            "consumedCapacity": {MEMORY: f"{memory_mib(card, slice_)}Mi", CORES: str(len(slice_.cores))},
        }
        for (slice_, card), share in zip(given, shares, strict=True)
    ]
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [only]}}


def memory_mib(card: Card, slice_: Slice) -> int:
    """The MiB of a slice in the card's ResourceSlice: the slice's memory units, each of the card's `unit_mib` MiB.

    A card reports a little less memory than a round number, and its units are a little smaller than their name says
    (core/contract/units.py). A ResourceSlice shows the round number, so that requests in GiB fill a card evenly.
    """
    units = -(-slice_.mem_mib * card.units // card.mem_mib)
    return units * card.unit_mib
