"""Which pods the kubelet takes, which tickets they get, and what happens to those that it refuses."""

from collections.abc import Callable

from tests.embedded.kubelet.one_node import CORES, MEM, OneNode, container, until


def refusal(node: OneNode, name: str) -> tuple[str, str]:
    """(reason, message) of a pod that was rejected; the event must say the same."""
    status = node.until_phase(name, "Failed")
    until(lambda: node.events(name), "event")
    reason, message = node.events(name)[0]
    assert reason == status["reason"]
    assert message in status["message"]
    return status["reason"], status["message"]


def test_a_pod_admitted_while_the_plugin_is_away_fails_for_good(minimal: OneNode) -> None:
    plugin = minimal.plugin(MEM, 4)
    plugin.stop()
    until(lambda: minimal.node()["status"]["allocatable"][MEM] == "0", "devices unhealthy")
    assert minimal.node()["status"]["capacity"][MEM] == "4"
    minimal.create("early", container(mem=1))
    reason, message = refusal(minimal, "early")
    assert reason == "UnexpectedAdmissionError"
    assert "no healthy devices present; cannot allocate unhealthy devices" in message
    plugin.serve()
    until(lambda: minimal.node()["status"]["allocatable"][MEM] == "4")
    minimal.create("late", container(mem=1))
    minimal.until_phase("late", "Running")
    assert minimal.phase("early") == "Failed"


def test_a_plugin_that_refuses_allocate_kills_the_pod_and_keeps_no_ticket(minimal: OneNode) -> None:
    plugin = minimal.plugin(MEM, 2)

    def refuse() -> None:
        raise RuntimeError("not today")

    plugin.on_allocate = refuse
    minimal.create("one", container(mem=2))
    reason, message = refusal(minimal, "one")
    assert reason == "UnexpectedAdmissionError"
    assert "not today" in message
    plugin.on_allocate = lambda: None
    minimal.create("two", container(mem=2))
    minimal.until_phase("two", "Running")


def test_too_few_tickets(minimal: OneNode) -> None:
    minimal.plugin(MEM, 4)
    minimal.create("one", container(mem=3))
    minimal.until_phase("one", "Running")
    minimal.create("two", container(mem=2))
    reason, message = refusal(minimal, "two")
    assert reason == "UnexpectedAdmissionError"
    assert f"requested number of devices unavailable for {MEM}. Requested: 2, Available: 1" in message


def test_allocate_is_called_for_pods_that_are_then_rejected_and_their_tickets_come_back(
    minimal: OneNode,
) -> None:
    plugin = minimal.plugin(MEM, 2)
    minimal.create("big", container(mem=2, limits={"cpu": "1000"}))
    reason, _ = refusal(minimal, "big")
    assert reason == "OutOfcpu"
    assert len(plugin.allocated) == 1
    minimal.create("small", container(mem=2))
    minimal.until_phase("small", "Running")
    assert plugin.allocated == [frozenset(plugin.health)] * 2


def test_a_resource_that_no_plugin_ever_advertised_is_dropped_silently(node: OneNode) -> None:
    node.create("one", container(mem=3, command=["ls", "/etc"]), restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    assert "vgpu" not in node.log("one")


def test_unhealthy_tickets_are_not_given_and_not_allocatable(minimal: OneNode) -> None:
    plugin = minimal.plugin(MEM, 4)
    sick = ["dcu-mem-0", "dcu-mem-1"]
    for ticket in sick:
        plugin.set_health(ticket, healthy=False)
    until(lambda: minimal.node()["status"]["allocatable"][MEM] == "2", "allocatable follows health")
    assert minimal.node()["status"]["capacity"][MEM] == "4"
    minimal.create("one", container(mem=2))
    minimal.until_phase("one", "Running")
    assert plugin.allocated == [frozenset(plugin.health) - frozenset(sick)]


def test_resources_are_allocated_in_either_order(make_node: Callable[..., OneNode]) -> None:
    order: list[str] = []
    node = make_node(on_start=lambda *_: None)
    for resource in (MEM, CORES):
        plugin = node.plugin(resource, 30)
        plugin.on_allocate = lambda resource=resource: order.append(resource)
    for i in range(10):
        node.create(f"pod-{i}", container(mem=1, cores=1))
    for i in range(10):
        node.until_phase(f"pod-{i}", "Running")
    assert {order[i] for i in range(0, 20, 2)} == {MEM, CORES}


def test_app_containers_reuse_the_tickets_of_init_containers_and_sidecars_keep_theirs(
    make_node: Callable[..., OneNode],
) -> None:
    minimal = make_node(on_start=lambda _pod, name, _files, _env: 0 if name == "init" else None)
    plugin = minimal.plugin(MEM, 8)
    plugin.bind = False
    init = [container("init", mem=3), container("side", mem=2, restartPolicy="Always")]
    minimal.create("one", container("main", mem=4), initContainers=init)
    minimal.until_phase("one", "Running")
    first, side, main = plugin.allocated
    assert first < side | main
    assert not side & main
    assert len(side | main) == 6


def test_tickets_are_free_once_the_pod_has_ended(node: OneNode) -> None:
    plugin = node.plugin(MEM, 2)
    node.create("one", container(mem=2, command=["true"]), restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    node.create("two", container(mem=2, command=["true"]), restartPolicy="Never")
    node.until_phase("two", "Succeeded")
    assert plugin.allocated[0] == plugin.allocated[1]
