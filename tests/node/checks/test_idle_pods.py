"""Pods with an idle limit: when they are warned, when they are in the inventory, and what takes that back."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path

import pytest
from msgspec.structs import replace

from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import IdlePod, Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.pods import Container, ContainerKind
from device_plugin.node.checks.idle_pods import MOST_AT_ONCE, UNMEASURED_SECONDS
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.slices.records import Record
from device_plugin.node.slices.writable import USAGE
from device_plugin.node.stages.agent import TURN_SECONDS
from tests.builders.cards import MEM
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.node.owned_slot import OwnedSlot
from vgpu_runtime.sim.processes import end_process

MINUTE, HOUR, STEP = 60.0, 3600.0, 15.0


class Node(Looping):
    """A node with the container `a` on its first card. Process 7 of it uses the card as the test writes."""

    def start(self) -> "Node":
        super().start()
        self.kfd = KfdTree(self.parts.machine)
        self.card, self.second = list(self.parts.cards().values())[:2]
        self.slot = OwnedSlot(self.parts.writable.path(("uid-a", "main"), USAGE))
        self.use()
        return self

    def use(self, busy: int | None = 0, mib: int = 512) -> None:
        self.slot.hold(512)
        self.host.mounted["uid-a"] = {7: ""}
        self.kfd.use(7, self.card, mib, 1, busy)

    def limit(self, text: str, name: str = "a") -> None:
        """Somebody writes the annotation, and the watch shows it; an empty text removes it."""
        pod = self.peer.pods["default", name]
        kept = {**(pod.annotations or {}), annotations.IDLE_LIMIT: text}
        pod = replace(pod, annotations={key: value for key, value in kept.items() if value})
        self.peer.pods["default", name] = pod
        self.parts.active.change(pod, gone=False)

    def delete(self, name: str = "a") -> None:
        """Somebody deletes or evicts the pod, which has a grace period."""
        pod = self.peer.pods["default", name] = replace(self.peer.pods["default", name], deleting=True)
        self.parts.active.change(pod, gone=False)

    def after(self, seconds: float) -> tuple[str, ...]:
        """The UIDs of the idle pods after some time, with one sample in each look. A look every 15 s saves time."""
        for _ in range(ceil(seconds / STEP)):
            self.parts.now += STEP
            self.figures.look()
            self.history.sample()
            self.history.look()
            self.kernel.idle.step()
        return tuple(pod.uid for pod in self.kernel.idle.found())

    def said(self) -> list[str]:
        """The events of the check: reason and pod."""
        return [reason for reason, _ in self.peer.events if reason.startswith(("SlicesIdle", "SlicesInUse"))]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start()
    yield node
    node.slot.close()


def test_an_idle_pod_is_warned_15_minutes_before_its_limit_and_found_at_it(node: Node) -> None:
    node.limit("2h")
    assert node.after(104 * MINUTE) == ()
    assert node.said() == []
    assert node.after(2 * MINUTE) == ()
    assert node.said() == ["SlicesIdle a"]
    ((_, text),) = (event for event in node.peer.events if event[0] == "SlicesIdle a")
    assert "idle for 1 h 45 min" in text
    assert "after 1970-01-01T02:00:" in text
    assert "(vgpu.io/idle-limit: 2 h)" in text
    assert node.after(13 * MINUTE) == ()
    assert node.after(2 * MINUTE) == ("uid-a",)
    assert node.after(HOUR) == ("uid-a",)
    assert node.said() == ["SlicesIdle a"]


def test_a_pod_that_works_again_is_not_evicted_and_hears_it(node: Node) -> None:
    node.limit("2h")
    node.after(2 * HOUR + MINUTE)
    node.use(busy=1)
    assert node.after(LOOK_SECONDS) == ()
    assert node.said() == ["SlicesIdle a", "SlicesInUse a"]
    node.use(busy=0)
    assert node.after(HOUR) == ()
    assert len(node.said()) == 2
    assert node.after(HOUR + MINUTE) == ("uid-a",)


def test_a_program_that_computes_within_each_look_is_never_warned(node: Node) -> None:
    node.limit("30m")
    node.after(STEP)
    for _ in range(int(HOUR / STEP)):
        node.use(busy=1)
        node.parts.now += TURN_SECONDS
        node.history.sample()
        node.use(busy=0)
        assert node.after(STEP) == ()
    assert node.said() == []


def test_memory_that_changes_is_work(node: Node) -> None:
    node.limit("30m")
    node.after(31 * MINUTE)
    node.use(mib=600)
    assert node.after(LOOK_SECONDS) == ()
    assert node.said() == ["SlicesIdle a", "SlicesInUse a"]


def test_on_a_card_without_occupancy_no_pod_is_idle(node: Node) -> None:
    node.limit("30m")
    assert node.kernel.idle.unmeasured() == ()
    end_process(node.parts.machine, 7)
    node.use(busy=None)
    assert node.after(HOUR) == ()
    assert node.said() == []
    node.turns(LOOK_SECONDS)
    assert Inventory.decode(node.peer.inventory).unmeasured == ("uid-a",)
    node.limit("")
    node.after(STEP)
    assert node.kernel.idle.unmeasured() == (), "it has no limit"


def test_a_moment_without_figures_changes_nothing(node: Node) -> None:
    """A process that starts or ends has none."""
    node.limit("30m")
    node.after(STEP)
    for _ in range(20):
        node.use(busy=None)
        node.after(UNMEASURED_SECONDS - STEP)
        assert node.kernel.idle.unmeasured() == ()
        node.use(busy=1)
        node.after(STEP)


@pytest.mark.parametrize("text", ["", "soon", "10s", "0", "2h" * 100, "x" * (256 << 10)])
def test_without_a_limit_that_can_be_read_no_pod_is_found(node: Node, text: str) -> None:
    node.limit(text)
    assert node.after(HOUR) == ()
    assert node.said() == []


def test_the_limit_of_now_counts(node: Node) -> None:
    node.limit("1h")
    assert node.after(61 * MINUTE) == ("uid-a",)
    node.limit("3h")
    assert node.after(LOOK_SECONDS) == (), "a longer one keeps it"
    assert node.said() == ["SlicesIdle a", "SlicesInUse a"]
    node.limit("30m")
    assert node.after(14 * MINUTE) == (), "its owner has 15 minutes' notice whatever the limit was"
    assert node.after(2 * MINUTE) == ("uid-a",)
    node.limit("")
    assert node.after(LOOK_SECONDS) == ()
    assert node.said()[-1] == "SlicesInUse a"


def test_a_limit_that_changes_all_the_time_costs_few_events(node: Node) -> None:
    node.after(3 * HOUR)
    for text in ["30m", "9h", "30m", "", "30m", "2h"] * 50:
        node.limit(text)
        assert node.after(STEP) == ()
    assert len(node.said()) <= 2 * 6, "of 75 minutes"


def test_all_containers_of_a_pod_must_have_started_and_be_idle(node: Node) -> None:
    one, two = (Slice(node.card.card.uuid, 1000, (core,)) for core in (5, 6))
    hold(node, "b", {"one": [one], "two": [two]}, started=["one"])
    node.limit("30m", "b")
    assert node.after(HOUR) == (), "the container `two` has not started"
    start(node, "b", "two", [two])
    assert node.after(29 * MINUTE) == (), "it has been idle for 29 minutes"
    assert node.after(2 * MINUTE) == ("uid-b",)


def test_all_cards_of_a_pod_must_be_idle(node: Node) -> None:
    hold(
        node,
        "b",
        {"main": [Slice(each.card.uuid, 1000, (5,)) for each in (node.card, node.second)]},
        ["main"],
    )
    node.limit("30m", "b")
    assert node.after(31 * MINUTE) == ("uid-b",)
    node.host.mounted["uid-b"] = {8: ""}
    node.kfd.use(8, node.second, 100, 1, 1)
    assert node.after(2 * LOOK_SECONDS) == (), "a process of it computes on the second card"


def test_after_a_restart_of_the_agent_the_time_begins_again(node: Node, tmp_path: Path) -> None:
    node.limit("30m")
    assert node.after(31 * MINUTE) == ("uid-a",)
    again = Looping(tmp_path, node.peer)
    again.host = node.host
    again.parts.start()
    assert again.turns(10) == ()
    assert again.kernel.idle.found() == ()
    assert Inventory.decode(node.peer.inventory).idle == ()


def test_the_inventory_names_idle_pods_with_two_writes(node: Node) -> None:
    node.turns(2)
    node.limit("30m")
    before = node.peer.writes
    node.after(31 * MINUTE)
    node.turns(LOOK_SECONDS)
    assert Inventory.decode(node.peer.inventory).idle == (IdlePod("uid-a", 1800),)
    node.after(10 * MINUTE)
    node.turns(LOOK_SECONDS)
    assert node.peer.writes == before + 1
    node.use(busy=1)
    node.turns(2 * LOOK_SECONDS)
    assert Inventory.decode(node.peer.inventory).idle == ()
    assert node.peer.writes == before + 2


def test_a_pod_that_could_not_be_warned_is_not_evicted(node: Node) -> None:
    node.limit("30m")
    node.peer.up = False
    assert node.after(HOUR) == ()
    node.peer.up, tries = True, len(node.said())
    assert tries <= HOUR / STEP
    assert node.after(14 * MINUTE) == ()
    assert node.after(2 * MINUTE) == ("uid-a",)


@pytest.mark.parametrize("up", [True, False])
def test_few_pods_are_warned_at_a_time_and_one_while_the_api_server_is_away(node: Node, up: bool) -> None:
    for number in range(2 * MOST_AT_ONCE):
        name = f"p{number}"
        hold(node, name, {"main": [Slice(node.card.card.uuid, 100, (5,))]}, started=["main"])
        node.limit("30m", name)
    node.peer.up = up
    at_once = 0
    for _ in range(int(16 * MINUTE / STEP)):
        before = len(node.said())
        node.after(STEP)
        at_once = max(at_once, len(node.said()) - before)
    assert at_once == (MOST_AT_ONCE if up else 1)


def test_a_pod_that_is_gone_is_not_found(node: Node) -> None:
    node.limit("30m")
    node.after(31 * MINUTE)
    node.parts.end(node.peer.pods["default", "a"])
    assert node.after(LOOK_SECONDS) == ()
    assert node.said() == ["SlicesIdle a"]


def test_a_pod_that_is_evicted_is_not_said_to_be_in_use_while_it_ends(node: Node) -> None:
    """Its program saves its work after SIGTERM, and then frees its memory."""
    node.limit("30m")
    assert node.after(31 * MINUTE) == ("uid-a",)
    node.delete()
    node.use(busy=1)
    assert node.after(2 * LOOK_SECONDS) == ()
    end_process(node.parts.machine, 7)
    node.after(2 * LOOK_SECONDS)
    assert node.said() == ["SlicesIdle a"]


def test_pods_that_are_to_end_are_not_warned(node: Node) -> None:
    """The API server refuses events in a namespace that is deleted, and further pods would wait for them."""
    node.limit("30m")
    node.delete()
    assert node.after(HOUR) == ()
    assert node.said() == []


def hold(node: Node, name: str, containers: Mapping[str, Sequence[Slice]], started: Sequence[str]) -> None:
    """A pod with these slices; the containers of `started` run."""
    pod = node.parts.bind(name, next(iter(containers.values())), {MEM: "1"})
    grant = Grant(pod.uid, "n1", {key: tuple(slices) for key, slices in containers.items()})
    pod = replace(
        pod, annotations={annotations.GRANT: grant.encode()},
        containers=tuple(Container(key, ContainerKind.MAIN, {MEM: "1"}) for key in containers),
    )  # fmt: skip
    node.peer.pods["default", name] = pod
    node.parts.active.change(pod, gone=False)
    for container in started:
        start(node, name, container, containers[container])


def start(node: Node, name: str, container: str, slices: Sequence[Slice]) -> None:
    record = Record(f"uid-{name}", "default", name, container, tuple(slices), {}, {}, {})
    node.parts.records.put(record)
    node.parts.writable.claim(record.key)
    node.peer.living.add(record.pod)
