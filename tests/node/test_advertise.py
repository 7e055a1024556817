"""Advertising against plugins and a kubelet socket that do what the test says, in virtual time."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from device_plugin.core.machine import KubeletError
from device_plugin.node.advertise import STREAM_SECONDS, Advertiser
from tests.node.parts import MEM, Parts, Peer


class Plugin:
    """A plugin whose kubelet listens as soon as it is told of it, unless `deaf`."""

    def __init__(self) -> None:
        self.serving = self.streaming = self.deaf = False
        self.starts = self.registrations = 0
        self.devices: Mapping[str, bool] = {}

    def start(self) -> None:
        self.serving, self.streaming = True, False
        self.starts += 1

    def register(self) -> None:
        if not self.serving:
            raise KubeletError("the kubelet found no socket")
        self.registrations += 1
        self.streaming = not self.deaf

    def update(self, devices: Mapping[str, bool]) -> None:
        self.devices = devices

    def stop(self) -> None:
        self.serving = self.streaming = False


class Node:
    """A node whose clock and kubelet the test moves."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts(folder, Peer())
        self.socket = folder / "kubelet.sock"
        self.made: dict[str, Plugin] = {}
        self.now = 0.0
        self.advertiser = Advertiser(
            self._make, self.socket, self.parts.records, self.parts.allocator, lambda: self.now
        )

    def _make(self, resource: str) -> Plugin:
        return self.made.setdefault(resource, Plugin())

    def kubelet(self) -> None:
        """A kubelet starts: it has a new socket, and our own are gone."""
        fresh = self.socket.with_suffix(".new")
        fresh.touch()
        fresh.replace(self.socket)
        for plugin in self.made.values():
            plugin.stop()

    def turn(self, seconds: float = 0.5) -> None:
        self.now += seconds
        self.advertiser.step(self.parts.inventory.cards())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_an_agent_that_is_there_before_the_kubelet_waits_and_says_for_what(node: Node) -> None:
    node.turn()
    assert "no kubelet at" in node.advertiser.why_not
    assert "kubeletDir" in node.advertiser.why_not
    node.kubelet()
    node.turn()
    node.turn()
    assert node.advertiser.serving
    assert {plugin.starts for plugin in node.made.values()} == {1}


def test_a_kubelet_that_restarts_is_served_and_registered_with_anew(node: Node) -> None:
    node.kubelet()
    node.turn()
    node.turn()
    node.kubelet()
    node.turn()
    assert not node.advertiser.serving
    node.turn()
    assert node.advertiser.serving
    assert {(plugin.starts, plugin.registrations) for plugin in node.made.values()} == {(2, 2)}


def test_nothing_is_registered_again_while_the_kubelet_listens(node: Node) -> None:
    node.kubelet()
    for _ in range(50):
        node.turn()
    assert {plugin.registrations for plugin in node.made.values()} == {1}


def test_a_stream_that_is_lost_is_asked_for_again_after_a_while(node: Node) -> None:
    node.kubelet()
    node.turn()
    node.turn()
    node.made[MEM].streaming = False
    node.turn(STREAM_SECONDS + 1)
    assert node.made[MEM].registrations == 2
    node.turn()
    assert node.advertiser.serving


def test_a_kubelet_that_does_not_listen_is_not_asked_at_every_turn(node: Node) -> None:
    node.kubelet()
    node.turn()
    node.made[MEM].deaf, node.made[MEM].streaming = True, False
    before = node.made[MEM].registrations
    for _ in range(20):
        node.turn()
    assert 1 <= node.made[MEM].registrations - before <= 20 * 0.5 / STREAM_SECONDS + 1
    assert not node.advertiser.serving


def test_resources_come_and_go_with_their_cards(node: Node) -> None:
    node.kubelet()
    node.turn()
    node.turn()
    node.now += 1
    node.advertiser.step([])
    assert not any(plugin.serving for plugin in node.made.values())
    node.turn()
    node.turn()
    assert node.advertiser.serving


def test_health_reaches_the_kubelet_both_ways(node: Node) -> None:
    node.kubelet()
    node.turn()
    assert all(node.made[MEM].devices.values())
    now = node.parts.inventory()
    first, *others = now.values()
    node.advertiser.step([first.sick().card, *(local.card for local in others)])
    assert list(node.made[MEM].devices.values()).count(False) == first.card.units
    node.turn()
    assert all(node.made[MEM].devices.values())
