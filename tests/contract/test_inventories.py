"""Who writes the inventory of a node's cards, and that a node agent writes nothing else."""

from collections.abc import Iterator

import pytest

from tests.builders.objects import node
from tests.contract.cluster import Answer, Cluster, unique

NODES = "/api/v1/nodes"
CARDS = "vgpu.io/cards"
# The node of the pod that the agent's token is bound to (conftest.USERS).
HOME = "node-of-the-agent"
# Of an object that is not there: with it, the node would be collected as garbage.
OWNER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "gone",
    "uid": "00000000-0000-0000-0000-000000000000",
}


def forbidden(answer: Answer, *words: str) -> None:
    assert answer.refusal == (403, "Forbidden"), answer.body
    assert "ValidatingAdmissionPolicy 'vgpu-inventories'" in answer.message
    for word in words:
        assert word in answer.message


@pytest.fixture(params=[HOME, ""])
def either(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """The agent's node, and another."""
    yield from _made(cluster, request.param or unique("node"))


@pytest.fixture
def home(cluster: Cluster) -> Iterator[str]:
    yield from _made(cluster, HOME)


@pytest.fixture
def other(cluster: Cluster) -> Iterator[str]:
    yield from _made(cluster, unique("node"))


def _made(cluster: Cluster, name: str) -> Iterator[str]:
    path = f"{NODES}/{name}"
    cluster.post(NODES, node(name, labels={"a": "1"}, annotations={"b": "2"}))
    yield path
    cluster.delete(path)


def inventory(value: str | None) -> dict[str, object]:
    return {"metadata": {"annotations": {CARDS: value}}}


def test_an_agent_writes_the_inventory_of_its_own_node(cluster: Cluster, home: str) -> None:
    for value in ("{}", '{"v":1}', None):
        assert cluster.patch(home, inventory(value), "agent").code == 200
    assert CARDS not in cluster.get(home).body["metadata"]["annotations"]


def test_an_agent_writes_no_other_inventory(cluster: Cluster, other: str) -> None:
    forbidden(cluster.patch(other, inventory("{}"), "agent"), "with the token of its own pod")


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"a": "2"}}},
        {"metadata": {"labels": {"c": "3"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"annotations": {"b": "3"}}},
        {"metadata": {"annotations": {"b": None}}},
        {"metadata": {"annotations": {"c": "3", CARDS: "{}"}}},
        {"metadata": {"finalizers": ["example.com/keep"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
        {"spec": {"unschedulable": True}},
    ],
)
def test_an_agent_writes_nothing_else_of_any_node(
    cluster: Cluster, either: str, change: dict[str, object]
) -> None:
    forbidden(cluster.patch(either, change, "agent"))


def test_an_agent_writes_no_status_and_makes_no_node(cluster: Cluster, home: str) -> None:
    forbidden(cluster.patch(f"{home}/status", {"status": {"phase": "Running"}}, "agent"), "writes only")
    forbidden(cluster.post(NODES, node(unique("node")), "agent"), "writes only")


@pytest.mark.parametrize("role", ["admin", "kubelet", "tenant"])
@pytest.mark.parametrize("sub", ["", "/status"])
def test_nobody_else_writes_one(cluster: Cluster, home: str, role: str, sub: str) -> None:
    forbidden(cluster.patch(home + sub, inventory("{}"), role), "only the vgpu agent on that node writes it")
    cluster.patch(home, inventory("{}"), "agent")
    forbidden(cluster.patch(home + sub, inventory('{"v":1}'), role))


def test_nobody_else_makes_a_node_with_one(cluster: Cluster) -> None:
    forbidden(cluster.post(NODES, node(unique("node"), annotations={CARDS: "{}"})), "only the vgpu agent")


def test_an_administrator_may_take_one_away(cluster: Cluster, home: str) -> None:
    cluster.patch(home, inventory("{}"), "agent")
    assert cluster.patch(home, inventory(None)).code == 200


def test_other_writers_of_nodes_are_not_disturbed(cluster: Cluster, home: str) -> None:
    cluster.patch(home, inventory("{}"), "agent")
    assert (
        cluster.patch(home, {"metadata": {"labels": {"c": "3"}}, "spec": {"unschedulable": True}}).code == 200
    )
    assert cluster.patch(f"{home}/status", {"metadata": {"annotations": {"c": "3"}}}, "kubelet").code == 200
