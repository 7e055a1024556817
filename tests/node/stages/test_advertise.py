"""Advertising against plugins and a kubelet socket that do what the test says, in virtual time."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.grants import Slice
from device_plugin.node.checks.other_plugins import RETURN_SECONDS
from device_plugin.node.stages.advertise import OTHERS_SECONDS, SILENT, STREAM_SECONDS
from tests.builders.cards import CORES, MEM, PERCENT, SLICES
from tests.node.found import record
from tests.node.looping import Looping, Plugin

DCU = "hygon.com/dcu"


@pytest.fixture
def node(tmp_path: Path) -> Looping:
    return Looping(tmp_path)


def test_an_agent_that_is_there_before_the_kubelet_waits_and_says_for_what(node: Looping) -> None:
    node.advertise()
    assert "no kubelet at" in node.advertiser.why_not
    assert "see that the kubelet runs" in node.advertiser.why_not
    node.kubelet()
    node.advertise()
    node.advertise()
    assert node.advertiser.serving
    assert {plugin.starts for plugin in node.made.values()} == {1}


def test_a_kubelet_that_restarts_is_served_and_registered_with_anew(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    node.advertise()
    node.kubelet()
    node.advertise()
    assert not node.advertiser.serving
    node.advertise()
    assert node.advertiser.serving
    assert {(plugin.starts, plugin.registrations) for plugin in node.made.values()} == {(2, 2)}


def test_nothing_is_registered_again_while_the_kubelet_listens(node: Looping) -> None:
    node.kubelet()
    for _ in range(50):
        node.advertise()
    assert {plugin.registrations for plugin in node.made.values()} == {1}


def test_a_stream_that_is_lost_is_asked_for_again_after_a_while(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    node.advertise()
    node.made[MEM].streaming = False
    node.advertise(STREAM_SECONDS + 1)
    assert node.made[MEM].registrations == 2
    node.advertise()
    assert node.advertiser.serving


def test_a_start_logs_no_warning_and_a_kubelet_that_does_not_listen_is_one(
    node: Looping, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "device_plugin.node.stages.advertise")
    node.kubelet()
    node.advertise()
    node.advertise()
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    caplog.clear()
    node.made[MEM].deaf, node.made[MEM].streaming = True, False
    for _ in range(40):
        node.advertise()
    assert [(record.levelname, record.message) for record in caplog.records][-1:] == [("WARNING", SILENT)]
    assert len(caplog.records) <= 2


def test_a_kubelet_that_does_not_listen_is_not_asked_at_every_turn(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    node.made[MEM].deaf, node.made[MEM].streaming = True, False
    before = node.made[MEM].registrations
    for _ in range(20):
        node.advertise()
    assert 1 <= node.made[MEM].registrations - before <= 20 * 0.5 / STREAM_SECONDS + 1
    assert not node.advertiser.serving


def test_resources_come_and_go_with_their_cards(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    node.advertise()
    node.parts.now += 1
    node.advertiser.step([])
    assert not any(plugin.serving for plugin in node.made.values())
    node.advertise()
    node.advertise()
    assert node.advertiser.serving


def test_health_reaches_the_kubelet_both_ways(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    assert all(node.made[MEM].devices.values())
    now = node.parts.shared()
    first, *others = now.values()
    node.advertiser.step([first.unhealthy("it is hot").card, *(local.card for local in others)])
    assert list(node.made[MEM].devices.values()).count(False) == first.card.units
    node.advertise()
    assert all(node.made[MEM].devices.values())


def test_a_resource_that_another_plugin_has_already_is_never_registered(node: Looping) -> None:
    node.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.advertise()
    node.advertise()
    assert node.served() == {MEM: [], CORES: [], PERCENT: [], SLICES: []}
    assert node.advertiser.serving


def test_a_resource_that_another_plugin_takes_is_left_to_it_and_its_family_withdrawn(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    running = record("one", Slice(node.parts.uuids[0], 2046, (0,)))
    node.parts.records.put(replace(running, tickets={MEM: ("dcu-mem-3", "dcu-mem-4")}))
    node.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    ours = node.made[DCU]
    told = dict(ours.devices)
    node.advertise(OTHERS_SECONDS)
    node.advertise()
    # Its stream stays, or the kubelet would drop the other plugin; the running container keeps its tickets.
    assert ours.streaming
    assert (ours.registrations, dict(ours.devices)) == (1, told)
    assert node.served()[MEM] == ["dcu-mem-3", "dcu-mem-4"]
    assert node.served()[CORES] == []
    assert node.advertiser.serving
    # A lost stream of ours is asked for again, and the other plugin's resource is not taken by that.
    node.made[MEM].streaming = False
    node.advertise(STREAM_SECONDS + 1)
    assert (node.made[MEM].registrations, ours.registrations) == (2, 1)


def test_a_kubelet_that_restarts_gets_nothing_that_another_plugin_serves(node: Looping) -> None:
    node.kubelet()
    node.advertise()
    node.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.advertise(OTHERS_SECONDS)
    node.peer.healthy = {}
    node.kubelet()
    for _ in range(int(RETURN_SECONDS / OTHERS_SECONDS) - 1):
        node.advertise(OTHERS_SECONDS)
    assert node.served() == {MEM: [], CORES: [], PERCENT: [], SLICES: []}
    assert not node.made[DCU].serving


def test_another_plugin_that_registers_just_before_us_is_seen_before_we_do(node: Looping) -> None:
    node.advertise()
    node.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.advertise()
    assert node.made.get(DCU, Plugin()).registrations == 0


def test_nothing_is_registered_while_the_kubelet_does_not_say_whose_devices_it_has(node: Looping) -> None:
    node.peer.mute = True
    node.kubelet()
    node.advertise()
    assert node.advertiser.why_not == "the kubelet does not say"
    assert {plugin.registrations for plugin in node.made.values()} == {0}
    node.peer.mute = False
    node.advertise()
    node.advertise()
    assert node.advertiser.serving


def test_the_family_comes_back_when_the_other_plugin_has_gone(node: Looping) -> None:
    node.peer.healthy = {DCU: frozenset({"0000:21:00.0"})}
    node.kubelet()
    node.advertise()
    node.peer.healthy = {}
    node.advertise(OTHERS_SECONDS)
    node.advertise(RETURN_SECONDS - 1)
    assert DCU not in node.served()
    node.advertise(OTHERS_SECONDS)
    node.advertise()
    assert node.advertiser.serving
    assert {name: len(tickets) for name, tickets in node.served().items()} == {
        DCU: 2, MEM: 32, CORES: 120, PERCENT: 200, SLICES: 8,
    }  # fmt: skip
