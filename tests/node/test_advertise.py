"""Advertising against plugins and a kubelet socket that do what the test says, in virtual time."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from device_plugin.core.grants import Slice
from device_plugin.core.machine import KubeletError
from device_plugin.node.advertise import OTHERS_SECONDS, STREAM_SECONDS, Advertiser
from device_plugin.node.other_plugins import RETURN_SECONDS, OtherPlugins
from tests.builders.cards import CORES, MEM
from tests.node.parts import Parts, Peer
from tests.node.test_other_plugins import Folder
from tests.node.test_parts import record

DCU = "hygon.com/dcu"


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
        self.others = OtherPlugins(
            self.parts.peer, Folder(), lambda: None, folder / "other-plugins.json", lambda: self.now
        )
        self.advertiser = Advertiser(
            self._make, self.socket, self.parts.records, self.parts.allocator, self.others, lambda: self.now
        )

    def _make(self, resource: str) -> Plugin:
        self.made[resource] = Plugin()
        return self.made[resource]

    def kubelet(self) -> None:
        """A kubelet starts: it has a new socket, and our own are gone."""
        fresh = self.socket.with_suffix(".new")
        fresh.touch()
        fresh.replace(self.socket)
        for plugin in self.made.values():
            plugin.stop()

    def served(self) -> dict[str, list[str]]:
        """The tickets that the kubelet hears of us, by resource."""
        return {name: list(plugin.devices) for name, plugin in self.made.items() if plugin.streaming}

    def turn(self, seconds: float = 0.5) -> None:
        self.now += seconds
        self.advertiser.step(self.parts.shared.cards())


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
    now = node.parts.shared()
    first, *others = now.values()
    node.advertiser.step([first.sick("it is hot").card, *(local.card for local in others)])
    assert list(node.made[MEM].devices.values()).count(False) == first.card.units
    node.turn()
    assert all(node.made[MEM].devices.values())


def test_a_resource_that_another_plugin_has_already_is_never_registered(node: Node) -> None:
    node.parts.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.turn()
    node.turn()
    assert node.served() == {MEM: [], CORES: []}
    assert node.advertiser.serving


def test_a_resource_that_another_plugin_takes_is_left_to_it_and_its_family_withdrawn(node: Node) -> None:
    node.kubelet()
    node.turn()
    running = record("one", Slice(node.parts.uuids[0], 2046, (0,)))
    node.parts.records.put(replace(running, tickets={MEM: ("dcu-mem-3", "dcu-mem-4")}))
    node.parts.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    ours = node.made[DCU]
    told = dict(ours.devices)
    node.turn(OTHERS_SECONDS)
    node.turn()
    # Its stream stays, or the kubelet would drop the other plugin; the running container keeps its tickets.
    assert ours.streaming
    assert (ours.registrations, dict(ours.devices)) == (1, told)
    assert node.served()[MEM] == ["dcu-mem-3", "dcu-mem-4"]
    assert node.served()[CORES] == []
    assert node.advertiser.serving
    # A lost stream of ours is asked for again, and the other plugin's resource is not taken by that.
    node.made[MEM].streaming = False
    node.turn(STREAM_SECONDS + 1)
    assert (node.made[MEM].registrations, ours.registrations) == (2, 1)


def test_a_kubelet_that_restarts_gets_nothing_that_another_plugin_serves(node: Node) -> None:
    node.kubelet()
    node.turn()
    node.parts.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.turn(OTHERS_SECONDS)
    node.parts.peer.healthy = {}
    node.kubelet()
    for _ in range(int(RETURN_SECONDS / OTHERS_SECONDS) - 1):
        node.turn(OTHERS_SECONDS)
    assert node.served() == {MEM: [], CORES: []}
    assert not node.made[DCU].serving


def test_another_plugin_that_registers_just_before_us_is_seen_before_we_do(node: Node) -> None:
    node.turn()
    node.parts.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.turn()
    assert node.made.get(DCU, Plugin()).registrations == 0


def test_nothing_is_registered_while_the_kubelet_does_not_say_whose_devices_it_has(node: Node) -> None:
    node.parts.peer.mute = True
    node.kubelet()
    node.turn()
    assert node.advertiser.why_not == "the kubelet does not say"
    assert {plugin.registrations for plugin in node.made.values()} == {0}
    node.parts.peer.mute = False
    node.turn()
    node.turn()
    assert node.advertiser.serving


def test_the_family_comes_back_when_the_other_plugin_has_gone(node: Node) -> None:
    node.parts.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.turn()
    node.parts.peer.healthy = {}
    node.turn(OTHERS_SECONDS)
    node.turn(RETURN_SECONDS - 1)
    assert DCU not in node.served()
    node.turn(OTHERS_SECONDS)
    node.turn()
    assert node.advertiser.serving
    assert {name: len(tickets) for name, tickets in node.served().items()} == {DCU: 2, MEM: 32, CORES: 120}
