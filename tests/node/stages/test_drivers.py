"""DRA drivers in virtual time, with a kubelet that does what the test says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.cards import Card
from device_plugin.core.machine import DeviceHealth, KubeletError
from device_plugin.node.stages.drivers import REGISTER_SECONDS, Drivers
from tests.builders.cards import card

DCU = replace(card("DCU-1"), family="hygon.com/dcu")
AMD = replace(card("GPU-1"), family="amd.com/gpu")


class Driver:
    """A driver that the kubelet registers as soon as the test says."""

    def __init__(self) -> None:
        self.serving = self.registered = False
        self.refusal = self.fails = ""
        self.starts = 0
        self.devices: Mapping[str, DeviceHealth] = {}

    def update(self, devices: Mapping[str, DeviceHealth]) -> None:
        self.devices = devices

    def start(self) -> None:
        if self.fails:
            raise KubeletError(self.fails)
        self.serving, self.registered = True, False
        self.starts += 1

    def stop(self) -> None:
        self.serving = self.registered = False


class Slices:
    """Notes which cards are shown."""

    def __init__(self) -> None:
        self.shown: list[Sequence[Card]] = []
        self.why_not = ""

    def step(self, cards: Sequence[Card]) -> None:
        self.shown.append(cards)


@dataclass
class Node:
    """The drivers of a node."""

    now: float = 100.0
    made: dict[str, Driver] = field(default_factory=dict)
    slices: Slices = field(default_factory=Slices)

    def __post_init__(self) -> None:
        self.drivers = Drivers(self._make, cast("Any", self.slices), lambda: self.now)

    def _make(self, name: str) -> Driver:
        return self.made.setdefault(name, Driver())

    def step(self, *cards: Card, seconds: float = 0.5, faults: Mapping[str, str] = {}) -> None:
        self.now += seconds
        self.drivers.step(cards, faults)


@pytest.fixture
def node() -> Node:
    return Node()


def test_claims_are_served_once_all_families_are_registered(node: Node) -> None:
    node.step(DCU, AMD)
    assert node.made.keys() == {"dcu.vgpu.io", "gpu.vgpu.io"}
    node.made["dcu.vgpu.io"].registered = True
    node.step(DCU, AMD)
    assert not node.drivers.registered
    assert "gpu.vgpu.io yet" in node.drivers.why_not
    assert not node.slices.shown, "the kubelet deletes what a driver shows that is not registered"
    node.made["gpu.vgpu.io"].registered = True
    node.step(DCU, AMD)
    assert node.drivers.registered
    assert node.slices.shown == [(DCU, AMD)]


def test_a_driver_that_the_kubelet_does_not_notice_gets_a_new_socket(node: Node) -> None:
    for _ in range(int(4 * REGISTER_SECONDS)):
        node.step(DCU)
    assert node.made["dcu.vgpu.io"].starts == 2
    node.made["dcu.vgpu.io"].registered = True
    for _ in range(int(4 * REGISTER_SECONDS)):
        node.step(DCU)
    assert node.made["dcu.vgpu.io"].starts == 2


def test_a_driver_whose_socket_is_gone_starts_again_at_once(node: Node) -> None:
    node.step(DCU)
    node.made["dcu.vgpu.io"].registered = True
    node.step(DCU)
    node.made["dcu.vgpu.io"].stop()
    node.step(DCU)
    assert not node.drivers.registered
    assert node.made["dcu.vgpu.io"].starts == 2


def test_why_claims_are_not_served_is_said(node: Node) -> None:
    assert node.drivers.why_not
    node.step(DCU)
    node.made["dcu.vgpu.io"].refusal = "no handler"
    node.step(DCU)
    assert node.drivers.why_not == "the kubelet does not register the DRA driver dcu.vgpu.io: no handler"
    node.made["dcu.vgpu.io"].stop()
    node.made["dcu.vgpu.io"].fails = "no folder"
    node.step(DCU)
    assert node.drivers.why_not == "no folder"
    node.made["dcu.vgpu.io"].fails = ""
    node.step(DCU)
    node.made["dcu.vgpu.io"].registered = True
    node.slices.why_not = "may not write"
    node.step(DCU)
    assert (node.drivers.registered, node.drivers.why_not) == (True, "may not write")


def test_a_family_without_cards_has_no_driver(node: Node) -> None:
    node.step(DCU, AMD)
    node.made["gpu.vgpu.io"].registered = True
    node.step(AMD)
    assert not node.made["dcu.vgpu.io"].serving
    assert node.drivers.registered
    node.drivers.stop()
    assert not node.made["gpu.vgpu.io"].serving


def test_the_health_of_a_familys_cards_goes_to_its_driver(node: Node) -> None:
    node.step(DCU, AMD)
    node.step(DCU, AMD, faults={"DCU-1": "too hot"})
    name = "card-0000-19-00-0"
    assert node.made["dcu.vgpu.io"].devices == {
        name: DeviceHealth(healthy=False, message="card DCU-1 is unhealthy: too hot")
    }
    assert node.made["gpu.vgpu.io"].devices == {name: DeviceHealth(healthy=True, message="card GPU-1")}
