"""A real agent process between a kubelet and an API server."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from device_plugin.core.contract.grants import Slice
from tests.deadline import until
from tests.files import found
from tests.node.one_node import OneNode
from tests.other_plugin import OtherPlugin
from vgpu_runtime import rocm, sim

Make = Callable[..., OneNode]
NO_HYGON = "version: v1\ncards: [{preset: amd-60cu-16gib, count: 2}]"


@pytest.fixture
def make() -> Iterator[Make]:
    nodes: list[OneNode] = []

    def build(*args: Any, **options: Any) -> OneNode:
        nodes.append(OneNode(*args, **options))
        return nodes[-1]

    yield build
    for node in nodes:
        node.close()


def runs(node: OneNode, name: str) -> bool:
    return node.phase(name) == "Running"


def test_a_pod_gets_its_slice_and_leaves_nothing(make: Make) -> None:
    node = make()
    card = node.until_serving().cards[0]
    uid = node.place("one", Slice(card.uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    (limit,) = rocm.parse(node.seen["one"][0]["/etc/vgpu/vgpu.conf"].decode()).cards
    assert (limit.uuid, limit.mem_bytes, limit.family.mask) == (card.uuid, 4092 << 20, 0b111)
    assert 'pod="one"' in node.probe("/metrics")[1]
    assert node.probe("/readyz")[0] == 200
    assert any(uid in str(path) for path in node.left())
    node.delete("one")
    until(lambda: not node.left(), "files gone")
    until(lambda: 'pod="one"' not in node.probe("/metrics")[1], "samples gone")


def test_without_a_tmpfs_the_agent_is_ready_says_so_and_exports_progress_all_the_same(make: Make) -> None:
    node = make()
    card = node.until_serving().cards[0]
    node.place("one", Slice(card.uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    assert node.probe("/readyz")[0] == 200
    assert f"{node.state}/writable is not mounted" in node.agent.log_tail(100)
    assert 'vgpu_writable_spare_containers{node="n1"} 0.0' in node.probe("/metrics")[1]
    (progress,) = found(node.state / "slices", "*/*/region/progress")
    progress.write_bytes(b"5 10\n")
    said = 'vgpu_progress_done{container="main",namespace="default",node="n1",pod="one"} 5.0'
    until(lambda: said in node.probe("/metrics")[1], "told")


def test_twenty_pods_in_flight_each_get_their_own_grant(make: Make) -> None:
    node = make(NO_HYGON, ["--prefixes", "{'1002': hygon.com/dcu}"])
    cards = node.until_serving().cards
    placed = {f"p{i}": Slice(cards[i % 2].uuid, 1023 + i % 3, (3 * i, 3 * i + 1)) for i in range(20)}
    for name, slice_ in placed.items():
        node.place(name, slice_, mem=1, cores=2)
    for name in placed:
        # The stand-in's admission policies are evaluated for each of their writes.
        until(partial(runs, node, name), node.agent.log_tail(), 200)
    for name, slice_ in placed.items():
        for files in node.seen[name]:
            (limit,) = rocm.parse(files["/etc/vgpu/vgpu.conf"].decode()).cards
            assert (limit.uuid, limit.mem_bytes >> 20) == (slice_.card, slice_.mem_mib)
            assert limit.family.mask == sum(1 << core for core in slice_.cores)


def test_a_restarted_kubelet_finds_the_agent_again(make: Make) -> None:
    node = make()
    card = node.until_serving().cards[0]
    node.kubelet.restart()
    # Pods that come in between are rejected: no plugin can help it.
    until(lambda: node.agent.log_tail(50).count("registered with the kubelet") >= 2, "registered again")
    node.until_serving()
    node.place("one", Slice(card.uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())


def test_what_ended_while_the_agent_was_dead_is_reclaimed_at_its_start(make: Make) -> None:
    node = make()
    cards = node.until_serving().cards
    for i, card in enumerate(cards):
        node.place(f"p{i}", Slice(card.uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    for i in range(2):
        until(partial(runs, node, f"p{i}"), node.agent.log_tail())
    node.agent.kill()
    node.delete("p0")
    until(lambda: node.phase("p0") == "gone", "p0 gone")
    assert any("p0" in path.read_text() for path in found(node.state / "slices", "*/*/record.json"))
    node.agent.start()
    node.agent.wait()
    until(lambda: len(found(node.state / "slices", "*/*")) == 1, "p0 reclaimed")
    assert node.phase("p1") == "Running"


def test_an_absent_kubelet_is_waited_for_and_readyz_says_so(make: Make) -> None:
    node = make(kubelet=False)
    until(lambda: "kubelet" in node.probe("/readyz")[1], "a reason")
    assert node.probe("/readyz")[0] == 503
    assert node.probe("/healthz")[0] == 200
    node.kubelet.start()
    node.until_serving()
    until(lambda: node.probe("/readyz")[0] == 200, node.probe("/readyz")[1])


def test_an_agent_without_api_server_advertises_and_publishes_later(make: Make) -> None:
    node = make()
    node.until_serving()
    node.api.stop()
    node.agent.kill()
    node.agent.start()
    node.agent.wait()
    until(lambda: "API server" in node.probe("/readyz")[1], "a reason")
    until(lambda: "kubelet" not in node.probe("/readyz")[1], "registered all the same")
    node.api.start()
    until(lambda: node.probe("/readyz")[0] == 200, node.probe("/readyz")[1])
    assert node.until_serving()


def test_a_sick_card_takes_its_own_tickets_and_no_others(make: Make) -> None:
    node = make()
    cards = node.until_serving().cards
    node.place("one", Slice(cards[0].uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    sim.set_health(node.machine, cards[1].uuid, ok=False)
    until(lambda: node.allocatable().get("hygon.com/dcu-mem") == "16", "half of the tickets unhealthy")
    until(lambda: node.allocatable()["hygon.com/dcu"] == "1", "half of the whole cards, too")
    until(lambda: (found := node.inventory()) and not found.cards[1].healthy, "published")
    sim.set_health(node.machine, cards[1].uuid, ok=True)
    until(lambda: node.allocatable().get("hygon.com/dcu-mem") == "32", "healthy again")
    assert node.phase("one") == "Running"


def test_a_terminated_agent_says_first_that_it_does_not_serve(make: Make) -> None:
    node = make()
    node.until_serving()
    node.agent.stop()
    found = node.inventory()
    assert found is not None
    assert not found.serving


def test_an_agent_with_another_memory_unit_takes_over_from_the_last(make: Make) -> None:
    node = make()
    node.until_serving()
    node.agent.stop()
    node.agent = node.service("--mem-unit-mib", "512")
    node.agent.start()
    node.agent.wait()
    until(lambda: node.allocatable().get("hygon.com/dcu-mem") == "64", "twice the tickets")
    until(lambda: node.probe("/readyz")[0] == 200, node.probe("/readyz")[1])


def test_a_broken_card_leaves_the_others_at_work(make: Make) -> None:
    node = make()
    assert len(node.until_serving().cards) == 2
    node.agent.kill()
    (node.machine / "sys/devices/virtual/kfd/kfd/topology/nodes/1/properties").write_text("rubbish\n")
    node.agent.start()
    node.agent.wait()
    until(
        lambda: (found := node.inventory()) and len(found.cards) == 1 and found.serving, node.agent.log_tail()
    )
    assert "nodes/1/properties" in node.agent.log_tail(60)


DCU, MEM = "hygon.com/dcu", "hygon.com/dcu-mem"
THEIRS = ["0000:21:00.0", "0000:22:00.0", "0000:23:00.0"]


@pytest.fixture
def other() -> Iterator[Callable[[OneNode], OtherPlugin]]:
    """A function that starts another vendor's plugin on a node."""
    started: list[OtherPlugin] = []

    def start(node: OneNode) -> OtherPlugin:
        started.append(OtherPlugin(node.kubelet.kubelet_dir / "device-plugins", DCU, THEIRS))
        return started[-1]

    yield start
    for plugin in started:
        plugin.stop()


def closed(node: OneNode) -> bool:
    """True if the cluster knows the cards and gives none of them to anybody."""
    found = node.inventory()
    return found is not None and found.serving and not any(card.open for card in found.cards)


def test_another_plugin_keeps_what_it_takes_and_what_runs_of_ours_goes_on(
    make: Make, other: Callable[[OneNode], OtherPlugin]
) -> None:
    node = make()
    card = node.until_serving().cards[0]
    node.place("one", Slice(card.uuid, 4092, (0, 1, 2)), mem=4, cores=3)
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    theirs = other(node)
    until(lambda: node.allocatable()[DCU] == "3", "theirs")
    until(lambda: closed(node), "withdrawn")
    until(lambda: node.allocatable()[MEM] == "4", "the tickets of the running container stay")
    until(lambda: f"another device plugin serves {DCU} on this node" in node.probe("/readyz")[1], "said")
    until(lambda: any(f"its device {THEIRS[0]}" in text for text in node.events()), "an event")
    # With our process ends the stream of ours that the kubelet takes for theirs: the next agent puts that right.
    node.agent.kill()
    until(lambda: node.allocatable()[DCU] == "0", "dropped")
    node.agent.start()
    node.agent.wait()
    until(lambda: node.allocatable()[DCU] == "3", node.agent.log_tail())
    until(lambda: node.allocatable()[MEM] == "4", node.agent.log_tail())
    until(lambda: closed(node), node.agent.log_tail())
    node.agent.stop()
    assert theirs.listened_to
    assert node.allocatable()[DCU] == "3"
    assert node.phase("one") == "Running"


def test_what_another_plugin_has_before_we_come_is_never_taken(
    make: Make, other: Callable[[OneNode], OtherPlugin]
) -> None:
    node = make(kubelet=False)
    node.agent.kill()
    node.kubelet.start()
    theirs = other(node)
    until(lambda: node.allocatable().get(DCU) == "3", "theirs")
    node.agent.start()
    node.agent.wait()
    until(lambda: closed(node), node.agent.log_tail())
    until(lambda: node.allocatable().get(MEM) == "0", "of no use without whole cards")
    assert theirs.listened_to
    assert node.allocatable()[DCU] == "3"
