"""What becomes of a container whose CDI devices cannot be injected: which failures are tried again, which count."""

import os

from tests.contract.kubelet.late_plugin import LatePlugin
from tests.contract.kubelet.node import Node


def test_a_device_that_no_spec_defines_is_tried_again_whatever_the_restart_policy(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    write, plugin.write = plugin.write, lambda *_: None
    node.create("one", node.container(mem=2), restartPolicy="Never")
    node.until(lambda: node.waiting("one")[0] == "CreateContainerError")
    device = f"lab.io/slice={plugin.name(plugin.allocated[0])}"
    assert f"CDI device injection failed: unresolvable CDI devices {device}" in node.waiting("one")[1]
    assert node.status("one")["phase"] == "Pending"
    plugin.write = write
    node.until_phase("one", "Running")
    assert node.state("one")["restartCount"] == 0


def test_a_spec_that_is_moved_in_is_read_when_another_file_goes(node: Node) -> None:
    """So several are read at once: CdiReload in device_plugin/node/stages/inject.py."""
    plugin = node.plugin(node.mem, 2)
    plugin.aside = node.folders.cdi / "aside"
    plugin.aside.mkdir()
    write = plugin.write

    def once(pod: str, ids: frozenset[str]) -> None:
        """The kubelet tries again, and then the spec is there already."""
        write(pod, ids)
        plugin.write = lambda *_: None

    plugin.write = once
    node.create("one", node.container(mem=2), restartPolicy="Never")
    # By itself it is not noticed, unless a reading for an earlier test comes late.
    node.until(
        lambda: any((node.folders.cdi / f"lab-{plugin.name(ids)}.json").exists() for ids in plugin.allocated)
    )
    plugin.aside.rmdir()
    node.until_phase("one", "Running")


def without_source(node: Node, plugin: LatePlugin) -> None:
    """From now on the file that is to be mounted is not there."""
    write = plugin.write

    def half(pod: str, ids: frozenset[str]) -> None:
        write(pod, ids)
        (node.folders.slices / pod / plugin.name(ids)).unlink()

    plugin.write = half


def test_a_mount_whose_source_is_gone_is_an_attempt_that_failed(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    without_source(node, plugin)
    node.create("one", node.container(mem=2))
    # The first restart is at once, as after any end; it counts.
    node.until(lambda: node.state("one")["restartCount"])
    last = node.state("one")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (128, "StartError")
    assert "no such file or directory" in last["message"].lower()
    assert node.waiting("one")[0] in ("RunContainerError", "CrashLoopBackOff")
    assert node.status("one")["phase"] == "Running"


def test_a_mount_whose_source_is_gone_ends_a_pod_that_never_restarts(node: Node) -> None:
    plugin = node.plugin(node.mem, 2)
    without_source(node, plugin)
    node.create("one", node.container(mem=2), restartPolicy="Never")
    node.until_phase("one", "Failed")
    ended = node.state("one")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")


def test_a_device_node_that_is_gone_is_tried_again_whatever_the_restart_policy(node: Node) -> None:
    """Unlike a mount's, its source is looked at before there is a container."""
    plugin = node.plugin(node.mem, 2)
    pipe = f"{node.prefix}.pipe"
    plugin.device = str(node.folders.slices_there / pipe)
    node.create("without", node.container(mem=1), restartPolicy="Never")
    said = f'failed to stat CDI host device "{plugin.device}": no such file or directory'
    node.until(lambda: said in node.waiting("without")[1], said)
    assert node.waiting("without")[0] == "CreateContainerError"
    assert node.status("without")["phase"] == "Pending"
    os.mkfifo(node.folders.slices / pipe)
    node.create("with", node.container(mem=1, command=["ls", "/dev/lab"]), restartPolicy="Never")
    node.until_phase("with", "Succeeded")
    (node.folders.slices / pipe).unlink()


def test_a_program_that_does_not_exist(node: Node) -> None:
    node.create("one", node.container(command=["/no/such/program"]), restartPolicy="Never")
    node.until_phase("one", "Failed")
    ended = node.state("one")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/program" in ended["message"]
