"""Starting, restarting and ending containers."""

import threading

from tests.embedded.kubelet.one_node import MEM, OneNode, container, until


def state(node: OneNode, pod: str) -> dict:
    return (node.status(pod).get("containerStatuses") or [{"state": {}}])[0]


def test_a_pre_start_error_is_retried_and_the_container_says_why(minimal: OneNode) -> None:
    plugin = minimal.plugin(MEM, 2)
    refuse = threading.Event()
    refuse.set()

    def pre_start() -> None:
        if refuse.is_set():
            raise RuntimeError("not yet")

    plugin.on_pre_start = pre_start
    pod = minimal.create("one", container(mem=2))
    until(lambda: "waiting" in state(minimal, "one")["state"])
    until(lambda: state(minimal, "one")["state"]["waiting"]["reason"] == "CreateContainerConfigError")
    assert "not yet" in state(minimal, "one")["state"]["waiting"]["message"]
    assert [group.name for group in minimal.groups(pod)] == ["sandbox"]
    refuse.clear()
    minimal.until_phase("one", "Running")
    assert any("not yet" in message for _, message in minimal.events("one"))
    assert len(plugin.allocated) == 1


def test_pre_start_runs_concurrently_for_different_pods(minimal: OneNode) -> None:
    plugin = minimal.plugin(MEM, 3)
    together = threading.Barrier(3, timeout=10)
    first = threading.local()

    def pre_start() -> None:
        if not together.broken and not getattr(first, "done", False):
            together.wait()

    plugin.on_pre_start = pre_start
    for i in range(3):
        minimal.create(f"pod-{i}", container(mem=1))
    until(lambda: together.n_waiting == 0 and len(plugin.started) >= 3, "all three inside PreStartContainer")
    plugin.on_pre_start = lambda: None
    for i in range(3):
        minimal.until_phase(f"pod-{i}", "Running")


def test_a_container_restarts_in_place_with_its_tickets_and_a_fresh_pre_start(node: OneNode) -> None:
    plugin = node.plugin(MEM, 4)
    script = "cat /etc/vgpu/vgpu.conf; exit 3"
    node.create("one", container(mem=2, command=["sh", "-c", script]), terminationGracePeriodSeconds=1)
    until(lambda: state(node, "one").get("restartCount", 0) >= 2, "two restarts")
    assert node.log("one").startswith("pod=one tickets=2\n" * 3)
    assert len(plugin.allocated) == 1
    assert set(plugin.started) == {plugin.allocated[0]}
    until(lambda: state(node, "one")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    assert state(node, "one")["lastState"]["terminated"]["exitCode"] == 3


def test_a_program_that_does_not_exist(node: OneNode) -> None:
    node.create("one", container(command=["/no/such/program"]))
    until(lambda: "waiting" in state(node, "one")["state"])
    waiting = state(node, "one")["state"]["waiting"]
    assert waiting["reason"] == "RunContainerError"
    assert "/no/such/program" in waiting["message"]
    assert node.phase("one") == "Pending"


def test_graceful_deletion_lets_the_program_end_by_itself(node: OneNode) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    node.create("one", container(command=["sh", "-c", script]))
    node.until_phase("one", "Running")
    until(lambda: "ready" in node.log("one"))
    node.delete("one")
    until(lambda: node.gone("one"))
    assert node.log("one") == "ready\nbye\n"


def test_a_force_deleted_pods_container_lives_on_and_its_tickets_are_given_again(node: OneNode) -> None:
    plugin = node.plugin(MEM, 2)
    stubborn = container(mem=2, command=["sleep", "infinity"])
    first = node.create("one", stubborn, terminationGracePeriodSeconds=3)
    node.until_phase("one", "Running")
    node.delete("one", grace=0)
    assert node.gone("one")
    node.create("two", stubborn, terminationGracePeriodSeconds=1)
    until(lambda: len(plugin.allocated) == 2, "the same tickets again")
    assert plugin.allocated[0] == plugin.allocated[1]
    assert node.groups(first), "the first pod's container still lives"
    until(lambda: not node.groups(first), "killed after its grace period")


def test_init_containers_run_before_and_sidecars_beside_the_main_container(node: OneNode) -> None:
    order = node.root / "order"
    order.mkdir()
    node.create(
        "one",
        container("main", command=["sh", "-c", "sleep 0.05; exit 0"]),
        initContainers=[
            container("first", command=["true"]),
            container("side", command=["sleep", "infinity"], restartPolicy="Always"),
        ],
        restartPolicy="Never",
        terminationGracePeriodSeconds=1,
    )
    status = node.until_phase("one", "Succeeded")
    first, side = status["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert side["state"]["terminated"]["exitCode"] == 137
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_an_init_container_that_fails_ends_a_pod_that_never_restarts(node: OneNode) -> None:
    pod = {"initContainers": [container("init", command=["false"])], "restartPolicy": "Never"}
    node.create("one", container(command=["true"]), **pod)
    status = node.until_phase("one", "Failed")
    assert "waiting" in status["containerStatuses"][0]["state"]
