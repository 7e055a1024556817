"""Whose a resource is, by the device IDs that the kubelet shows, in virtual time."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from device_plugin.core import pods
from device_plugin.core.machine import KubeletError
from device_plugin.node.checks.other_plugins import RETURN_SECONDS, OtherPlugins
from device_plugin.node.slices.tickets import resources
from tests.node.found import card
from tests.node.looping import Folder

OURS = resources([card()])
DCU, CORES, MEM = "hygon.com/dcu", "hygon.com/dcu-cores", "hygon.com/dcu-mem"
THEIRS = {DCU: frozenset({"0000:21:00.0"})}


class Node(Folder):
    """A kubelet, its folder and the node's status, as the test sets them."""

    def __init__(self, store: Path) -> None:
        super().__init__()
        self.now = 0.0
        self.healthy: Mapping[str, frozenset[str]] = {}
        self.silent = False
        self.capacity: Mapping[str, str] | None = {}
        self.plugins = self.agent(store)

    def agent(self, store: Path) -> OtherPlugins:
        """What a new agent knows."""
        self.plugins = OtherPlugins(self, self, self.node, store, lambda: self.now)
        self.plugins.load()
        return self.plugins

    def node(self) -> pods.Node | None:
        return None if self.capacity is None else pods.Node("n1", capacity=self.capacity)

    def list(self) -> tuple[()]:
        raise AssertionError("it may make the kubelet hand out tickets twice")

    def devices(self) -> Mapping[str, frozenset[str]]:
        if self.silent:
            raise KubeletError("no answer")
        return self.healthy

    def look(self, seconds: float = 3.0) -> bool:
        """Look after some time; whether the family is withdrawn."""
        self.now += seconds
        with contextlib.suppress(KubeletError):
            self.plugins.look(OURS)
        return self.plugins.withdrawn(DCU)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "other-plugins.json")


@pytest.mark.parametrize(
    ("healthy", "withdrawn"),
    [
        ({}, False),
        ({DCU: {"dcu-0"}, MEM: {"dcu-mem-0", "dcu-mem-4095"}, CORES: {"dcu-cores-7"}}, False),
        ({DCU: {"0"}}, True),
        ({DCU: {"dcu-0", "GPU-0"}}, True),
        ({MEM: {"dcu-0"}}, True),
        ({MEM: {"dcu-mem--1"}}, True),
        ({DCU: {"dcu-"}}, True),
        ({"amd.com/gpu": {"0000:21:00.0"}}, False),
    ],
)
def test_devices_that_no_agent_of_ours_would_name_are_another_plugins(
    node: Node, healthy: dict[str, set[str]], withdrawn: bool
) -> None:
    node.healthy = {name: frozenset(ids) for name, ids in healthy.items()}
    assert node.look() is withdrawn


@pytest.mark.parametrize(
    ("capacity", "withdrawn"),
    [
        ({DCU: "7"}, True),
        ({DCU: "1"}, True),  # as many as we: both plugins see the same cards
        ({DCU: "1", MEM: "0", CORES: "0"}, True),  # an agent of ours that had withdrawn the family
        ({DCU: "0", "cpu": "8"}, False),
        ({DCU: "1", MEM: "32", CORES: "60"}, False),  # another memUnitMiB
        ({}, False),
    ],
)
def test_what_the_node_has_before_our_first_agent_is_another_plugins(
    node: Node, capacity: dict[str, str], withdrawn: bool
) -> None:
    node.sockets, node.capacity = ["theirs.sock"], capacity
    node.plugins.expect(capacity, OURS)
    assert node.plugins.withdrawn(DCU) is withdrawn
    assert node.look(RETURN_SECONDS * 2) is withdrawn


def test_a_line_names_the_resource_and_a_device_and_does_not_change_by_itself(node: Node) -> None:
    node.healthy = {DCU: frozenset({"b" * 300, "c"})}
    node.look()
    (line,) = node.plugins.problems()
    assert line.startswith(f"another device plugin serves {DCU} on this node (its device {'b' * 63}): ")
    node.healthy = {DCU: frozenset({"c"})}
    node.look()
    assert node.plugins.problems() == [line]
    assert (node.plugins.serve(DCU), node.plugins.serve(MEM)) == (True, False)


def test_a_kubelet_that_does_not_answer_changes_nothing(node: Node) -> None:
    node.silent = True
    assert not node.look()
    node.silent, node.healthy = False, THEIRS
    assert node.look()
    node.silent = True
    assert all(node.look(RETURN_SECONDS) for _ in range(5))


def test_it_has_gone_once_nothing_spoke_for_it_for_a_while(node: Node) -> None:
    node.healthy = THEIRS
    node.look()
    node.healthy = {}
    assert node.look()
    assert node.look(RETURN_SECONDS - 1)
    node.healthy = THEIRS  # the kubelet had restarted
    assert node.look()
    node.healthy = {}
    assert node.look()
    assert node.look(RETURN_SECONDS - 1)
    assert not node.look()
    assert node.plugins.problems() == []


@pytest.mark.parametrize(
    ("sockets", "capacity", "gone"),
    [
        ([], {DCU: "4"}, True),
        (["theirs.sock"], {DCU: "4"}, False),  # its devices are all unhealthy
        (["rdma.sock"], {DCU: "0"}, True),
        (["rdma.sock"], {}, True),
        (["rdma.sock"], None, False),  # the API server does not answer
    ],
)
def test_a_plugin_without_a_healthy_device_may_still_be_there(
    node: Node, sockets: list[str], capacity: dict[str, str] | None, gone: bool
) -> None:
    node.healthy = THEIRS
    node.look()
    node.healthy, node.sockets, node.capacity = {}, sockets, capacity
    node.look()
    assert node.look(RETURN_SECONDS) is not gone


@pytest.mark.parametrize("later", [["theirs.sock"], ["rdma.sock", "theirs.sock"]])
def test_the_next_agent_knows_and_registers_what_was_dropped_with_the_last(
    node: Node, tmp_path: Path, later: list[str]
) -> None:
    node.healthy, node.sockets = THEIRS, ["theirs.sock"]
    node.look()
    node.healthy, node.sockets, node.capacity = {}, later, {DCU: "4"}
    node.agent(tmp_path / "other-plugins.json")
    assert node.plugins.withdrawn(DCU)
    assert all(node.look() for _ in range(3))
    assert node.registered == [("theirs.sock", DCU)]


@pytest.mark.parametrize(
    ("first", "later", "tried"),
    [
        (["theirs.sock"], [], 0),
        (["theirs.sock"], ["rdma.sock"], 0),
        (["rdma.sock", "theirs.sock"], ["theirs.sock"], 0),
        (["broken.sock"], ["broken.sock"], 1),
    ],
)
def test_nobody_is_registered_where_it_is_not_clear_who(
    node: Node, tmp_path: Path, first: list[str], later: list[str], tried: int
) -> None:
    node.healthy, node.sockets = THEIRS, first
    node.look()
    node.healthy, node.sockets, node.capacity = {}, later, {DCU: "4"}
    node.agent(tmp_path / "other-plugins.json")
    assert node.look()
    assert node.look()
    assert len(node.registered) == tried


def test_another_plugin_that_this_agent_saw_last_is_not_registered(node: Node) -> None:
    node.healthy, node.sockets = THEIRS, ["theirs.sock"]
    node.look()
    node.healthy = {}
    node.look()
    assert node.registered == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": ["b"]}', '{"a": "b"}', "\x00"])
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "other-plugins.json").write_text(text)
    assert Node(tmp_path / "other-plugins.json").plugins.problems() == []
