"""Starting, restarting and ending containers."""

import re
import threading

from tests.contract.kubelet.node import Node


def test_a_pre_start_error_is_retried_and_the_container_says_why(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    refuse = threading.Event()
    refuse.set()

    def pre_start() -> None:
        if refuse.is_set():
            raise RuntimeError("not yet")

    plugin.on_pre_start = pre_start
    pod = node.create("one", node.container(mem=2))
    node.until(lambda: node.waiting("one")[0] == "CreateContainerConfigError")
    _, message = node.waiting("one")
    assert message.startswith(
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown"
    )
    assert "not yet" in message
    assert node.status("one")["phase"] == "Pending"
    assert len(node.live(pod)) == 1  # the sandbox
    refuse.clear()
    node.until_phase("one", "Running")
    node.until(lambda: ("Failed", f"Error: {message}") in node.events("one"), "event")
    assert len(plugin.allocated) == 1


def test_a_condition_that_another_wrote_outlives_the_containers(node: Node) -> None:
    """By it a Job's failure policy tells an eviction from a failure of the program."""
    node.create("one", node.container(), finalizers=["example.com/keep"])
    node.until_phase("one", "Running")
    node.evict("one")
    conditions = node.until_phase("one", "Failed")["conditions"]
    assert [item["status"] for item in conditions if item["type"] == "DisruptionTarget"] == ["True"]


def test_pre_start_runs_concurrently_for_different_pods(node: Node) -> None:
    plugin = node.plugin(node.mem, 3)
    together, met = threading.Barrier(3, timeout=node.machine.patience), threading.Event()

    def pre_start() -> None:
        if not met.is_set():  # a container that could not be made comes again, alone
            together.wait()
            met.set()

    plugin.on_pre_start = pre_start
    for i in range(3):
        node.create(f"pod-{i}", node.container(mem=1))
    for i in range(3):
        node.until_phase(f"pod-{i}", "Running")
    assert met.is_set()


def test_a_container_restarts_in_place_with_its_tickets_and_a_fresh_pre_start(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    script = "cat /etc/vgpu/vgpu.conf && exit 3"
    node.create("one", node.container(mem=2, command=["sh", "-c", script]))
    node.until(lambda: node.state("one")["restartCount"])
    waiting = f"restarting failed container=main pod={node.named('one')}"
    backing_off = re.compile(rf"CrashLoopBackOff: back-off \S+ {re.escape(waiting)}")
    # Each attempt is followed by such a time, and each such time by an attempt.
    node.until(lambda: backing_off.fullmatch(": ".join(node.waiting("one"))))
    # Only the last attempts' are kept; the newest may just begin.
    node.until(lambda: node.log("one").endswith(f"{node.config('one')}2\n"))
    assert len(plugin.allocated) == 1
    assert len(plugin.started) > 1
    assert set(plugin.started) == {plugin.allocated[0]}
    assert node.status("one")["phase"] == "Running"
    last = node.state("one")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (3, "Error")
    node.until(lambda: "BackOff" in dict(node.events("one")))
    message = f"Back-off restarting failed container main in pod {node.named('one')}"
    assert dict(node.events("one"))["BackOff"] == message


def test_graceful_deletion_lets_the_program_end_by_itself(node: Node) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    node.create(
        "one",
        node.container(command=["sh", "-c", script]),
        finalizers=["lab.io/keep"],
        terminationGracePeriodSeconds=20,
    )
    node.until_phase("one", "Running")
    node.until(lambda: "ready" in node.log("one"))
    node.delete("one")
    status = node.until_phase("one", "Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_force_deleted_pods_container_lives_on_and_its_tickets_are_given_again(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    # Process 1 of a container ends by a signal only if it handles it.
    first = node.create("one", node.container(mem=2), terminationGracePeriodSeconds=4)
    status = node.until_phase("one", "Running")
    container = status["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    alive: list[bool] = []
    # The real kubelet kills it 2 s later: it is looked at in that moment, not after it.
    plugin.on_allocate = lambda: alive.append(container in node.live(first))
    node.delete("one", grace=0)
    node.create("two", node.container(mem=2))
    assert node.gone("one")
    node.until(lambda: len(plugin.allocated) == 2, "the same tickets again")
    assert plugin.allocated[0] == plugin.allocated[1]
    assert alive == [True], "the first pod's container still lives"
    node.until(lambda: container not in node.live(first), "killed after its grace period")


def test_init_containers_run_before_and_sidecars_beside_the_main_container(node: Node) -> None:
    node.create(
        "one",
        node.container("main", command=["true"]),
        initContainers=[
            node.container("first", command=["true"]),
            node.container("side", restartPolicy="Always"),
        ],
        restartPolicy="Never",
    )
    status = node.until_phase("one", "Succeeded")
    first, side = status["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert first["state"]["terminated"]["reason"] == "Completed"
    assert side["state"]["terminated"]["exitCode"] == 137
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_an_init_container_that_fails_ends_a_pod_that_never_restarts(node: Node) -> None:
    init = [node.container("init", command=["false"])]
    node.create("one", node.container(command=["true"]), initContainers=init, restartPolicy="Never")
    status = node.until_phase("one", "Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert node.waiting("one")[0] == "PodInitializing"
