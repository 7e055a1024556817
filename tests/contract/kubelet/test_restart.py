"""What survives a restart of the kubelet, and what does not."""

from tests.contract.kubelet.node import Node


def test_a_running_container_survives_and_keeps_its_tickets(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    lost = node.plugin(node.cores, 3)
    pod = node.create("one", node.container(mem=2))
    node.until_phase("one", "Running")
    before = node.live(pod)
    node.restart_kubelet()
    assert not {f"{plugin.tail}.sock", f"{lost.tail}.sock"} & node.sockets()
    # Until the kubelet writes the node's status again, it is that of before the restart.
    node.until_offered(node.mem, (0, 0))
    node.until_offered(node.cores, (0, 0))
    plugin.stop()
    plugin.serve()
    node.until_offered(node.mem, (4, 4))
    node.create("two", node.container(mem=2))
    node.until_phase("two", "Running")
    assert node.live(pod) == before
    assert node.status("one")["phase"] == "Running"
    assert node.state("one")["restartCount"] == 0
    assert not plugin.allocated[0] & plugin.allocated[1]
    # What did not register again has no capacity, and nothing is dropped silently.
    assert node.offered(node.cores) == (0, 0)
    node.create("three", node.container(cores=1))
    assert node.refusal("three")[0] == "UnexpectedAdmissionError"


def test_a_pod_whose_container_was_not_running_is_rejected_before_its_plugin_is_back(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)

    def refuse() -> None:
        raise RuntimeError("not yet")

    plugin.on_pre_start = refuse
    node.create("one", node.container(mem=2))
    node.until(lambda: plugin.started)
    node.restart_kubelet()
    assert node.refusal("one")[0] == "UnexpectedAdmissionError"


def test_what_happened_while_the_kubelet_was_down(node: Node) -> None:
    """A container that ended starts again, one whose pod was deleted is ended, and what had ended stays so."""
    node.create("ended", node.container(command=["true"]), restartPolicy="Never")
    deleted = node.create("deleted", node.container())
    node.until_phase("deleted", "Running")
    node.until_phase("ended", "Succeeded")
    lives = node.machine.patience / 6  # the kubelet must be down before it ends
    script = f"echo run; sleep {lives:.0f}; exit 1"
    again = node.create("again", node.container(command=["sh", "-c", script]))
    node.until_phase("again", "Running")
    with node.halted():
        node.delete("deleted", grace=0)
        assert node.live(deleted)
        node.until(lambda: len(node.live(again)) == 1, "only its sandbox lives")
        assert node.state("again")["restartCount"] == 0
    node.until(lambda: node.state("again")["restartCount"])
    node.until(lambda: node.log("again").count("run") == 2)
    node.until(lambda: not node.live(deleted))
    assert node.status("ended")["phase"] == "Succeeded"
    node.delete("ended")
    node.until(lambda: node.gone("ended"))
