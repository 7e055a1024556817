"""Which pods the kubelet takes, which tickets they get, and what happens to those that it refuses."""

from functools import partial

from tests.contract.kubelet.node import Node

# More than any node has: the pod is refused once Allocate was called.
TOO_MUCH = {"cpu": "1000"}


def test_a_pod_admitted_while_the_plugin_is_away_fails_for_good(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    plugin.stop()
    node.until_offered(node.mem, (4, 0))
    node.create("early", node.container(mem=1))
    assert node.refusal("early") == (
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
        f" {node.mem}, which is unexpected",
    )
    plugin.serve()
    node.until_offered(node.mem, (4, 4))
    node.create("late", node.container(mem=1))
    node.until_phase("late", "Running")
    assert node.status("early")["phase"] == "Failed"


def test_a_plugin_that_refuses_allocate_kills_the_pod_and_keeps_no_ticket(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)

    def refuse() -> None:
        raise RuntimeError("not today")

    plugin.on_allocate = refuse
    node.create("one", node.container(mem=2))
    reason, message = node.refusal("one")
    assert reason == "UnexpectedAdmissionError"
    assert "Allocate failed due to rpc error: code = Unknown desc = " in message
    assert "not today" in message
    plugin.on_allocate = lambda: None
    node.create("two", node.container(mem=2))
    node.until(lambda: plugin.allocated == [frozenset(plugin.health)])


def test_too_few_tickets(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    node.create("one", node.container(mem=3))
    node.until(lambda: plugin.allocated)
    node.create("two", node.container(mem=2))
    assert node.refusal("two") == (
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for"
        f" {node.mem}. Requested: 2, Available: 1, which is unexpected",
    )


def test_allocate_is_called_for_pods_that_are_then_rejected_and_their_tickets_come_back(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    for name in ("one", "two"):
        node.create(name, node.container(mem=2, limits=TOO_MUCH))
        reason, message = node.refusal(name)
        assert reason == "OutOfcpu"
        assert message.startswith(
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, "
        )
    assert plugin.allocated == [frozenset(plugin.health)] * 2


def test_a_rejected_pod_never_had_a_container(node: Node) -> None:
    pod = node.create("one", node.container(limits=TOO_MUCH))
    node.refusal("one")
    status = node.status("one")
    assert "containerStatuses" not in status or "terminated" in node.state("one")["state"]
    assert not node.live(pod)


def test_a_resource_that_no_plugin_ever_advertised_is_dropped_silently(node: Node) -> None:
    node.create("one", node.container(mem=3, command=["ls", "/etc"]), restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    assert "vgpu" not in node.log("one")


def test_unhealthy_tickets_are_not_given_and_not_allocatable(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    sick = sorted(plugin.health)[:2]
    for ticket in sick:
        plugin.set_health(ticket, healthy=False)
    node.until_offered(node.mem, (4, 2))
    node.create("one", node.container(mem=2, limits=TOO_MUCH))
    node.refusal("one")
    assert plugin.allocated == [frozenset(plugin.health) - frozenset(sick)]


def test_allocate_is_called_once_for_each_resource_in_either_order(node: Node) -> None:
    order: list[str] = []
    for resource in (node.mem, node.cores):
        plugin = node.plugin(resource, 30)
        plugin.on_allocate = partial(order.append, resource)
    # Of twelve coins all may fall alike, of sixty they do not.
    for batch in range(5):
        pods = [f"pod-{batch}-{i}" for i in range(12)]
        for pod in pods:
            node.create(pod, node.container(mem=1, cores=1, limits=TOO_MUCH))
        for pod in pods:
            node.until_phase(pod, "Failed")
        assert len(order) == 24 * (batch + 1)
        if len(set(order[::2])) > 1:
            break
    assert set(order[::2]) == {node.mem, node.cores}
    # Serial on a node: the two calls for one pod are neighbours.
    assert all({*order[i : i + 2]} == {node.mem, node.cores} for i in range(0, len(order), 2))


def test_app_containers_reuse_the_tickets_of_init_containers_and_sidecars_keep_theirs(node: Node) -> None:
    plugin = node.plugin(node.mem, 8)
    plugin.bind = False
    init = [
        node.container("init", mem=3, command=["true"]),
        node.container("side", mem=2, restartPolicy="Always"),
    ]
    node.create("one", node.container("main", mem=4), initContainers=init)
    node.until(lambda: len(plugin.allocated) == 3)
    first, side, main = plugin.allocated
    assert first < side | main
    assert not side & main
    assert len(side | main) == 6
    node.until_phase("one", "Running")
    assert list(dict.fromkeys(plugin.started)) == plugin.allocated


def test_tickets_are_free_once_the_pod_has_ended(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    for name in ("one", "two"):
        # The runtime may still have the first one's spec of the name, whose source is gone: such an attempt failed.
        node.create(name, node.container(mem=2, command=["true"]), restartPolicy="OnFailure")
        node.until_phase(name, "Succeeded")
    assert plugin.allocated == [frozenset(plugin.health)] * 2
