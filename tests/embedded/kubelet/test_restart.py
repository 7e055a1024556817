"""What survives a restart of the kubelet, and what does not."""

from collections.abc import Callable

from tests.embedded.kubelet.one_node import MEM, OneNode, container, until

SLEEP = ["sleep", "infinity"]


def test_a_running_container_survives_and_keeps_its_tickets(node: OneNode) -> None:
    plugin = node.plugin(MEM, 4)
    pod = node.create("one", container(mem=2, command=SLEEP), terminationGracePeriodSeconds=1)
    node.until_phase("one", "Running")
    before = node.groups(pod)
    node.kubelet.restart()
    assert [path.name for path in (node.kubelet.kubelet_dir / "device-plugins").glob("*.sock")] == [
        "kubelet.sock"
    ]
    plugin.stop()
    plugin.serve()
    until(lambda: node.kubelet._session.devices.capacity()[MEM] == (4, 4))
    node.create("two", container(mem=2, command=SLEEP), terminationGracePeriodSeconds=1)
    node.until_phase("two", "Running")
    assert node.groups(pod) == before
    assert node.phase("one") == "Running"
    assert not plugin.allocated[0] & plugin.allocated[1]


def test_after_a_restart_an_unregistered_resource_has_no_capacity(minimal: OneNode) -> None:
    minimal.plugin(MEM, 4)
    minimal.kubelet.restart()
    until(lambda: minimal.node()["status"]["capacity"][MEM] == "0")


def test_a_pod_whose_container_was_not_running_is_rejected_before_its_plugin_is_back(
    minimal: OneNode,
) -> None:
    plugin = minimal.plugin(MEM, 4)

    def refuse() -> None:
        raise RuntimeError("not yet")

    plugin.on_pre_start = refuse
    minimal.create("one", container(mem=2))
    until(lambda: plugin.allocated)
    minimal.kubelet.restart()
    status = minimal.until_phase("one", "Failed")
    assert status["reason"] == "UnexpectedAdmissionError"


def test_a_container_that_ended_while_nobody_looked_starts_again(make_node: Callable[..., OneNode]) -> None:
    node = make_node()
    node.create(
        "one", container(command=["sh", "-c", "echo run; sleep 0.2; exit 1"]), terminationGracePeriodSeconds=1
    )
    until(lambda: (node.status("one").get("containerStatuses") or [{}])[0].get("restartCount", 0) >= 1)
    node.kubelet.restart()
    count = node.log("one").count("run")
    until(lambda: node.log("one").count("run") > count + 1)
    assert node.status("one")["containerStatuses"][0]["restartCount"] >= 2


def test_containers_of_pods_deleted_meanwhile_are_ended(node: OneNode) -> None:
    pod = node.create("one", container(command=SLEEP), terminationGracePeriodSeconds=1)
    node.until_phase("one", "Running")
    session = node.kubelet._session
    session.stop()
    node.kubelet._session = None
    node.delete("one", grace=0)
    assert node.groups(pod)
    node.kubelet.restart()
    until(lambda: not node.groups(pod))


def test_the_api_server_may_be_away(node: OneNode) -> None:
    node.create("one", container(command=SLEEP), terminationGracePeriodSeconds=1)
    node.until_phase("one", "Running")
    node.api.stop()
    node.kubelet.restart()
    node.api.start()
    node.create("two", container(command=["true"]), restartPolicy="Never")
    node.until_phase("two", "Succeeded")
    assert node.phase("one") == "Running"


def test_a_pod_that_had_ended_stays_as_it_ended(node: OneNode) -> None:
    node.plugin(MEM, 4)
    node.create("one", container(mem=2, command=["true"]), restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    node.kubelet.restart()
    node.create("two", container(command=["true"]), restartPolicy="Never")
    node.until_phase("two", "Succeeded")
    assert node.phase("one") == "Succeeded"
    node.delete("one")
    until(lambda: node.gone("one"))
