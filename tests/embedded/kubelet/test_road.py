"""One pod through registration, Allocate, PreStartContainer, CDI and a container, and back."""

import os
import threading

from tests.embedded.kubelet.one_node import CORES, MEM, OneNode, container, until


def test_a_container_finds_the_config_that_was_written_for_its_pod(node: OneNode) -> None:
    plugins = [node.plugin(MEM, 16), node.plugin(CORES, 15)]
    node.create(
        "one", container(mem=4, cores=3, command=["cat", "/etc/vgpu/vgpu.conf"]), restartPolicy="Never"
    )
    status = node.until_phase("one", "Succeeded")
    assert node.log("one") == "pod=one tickets=4\n"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert [len(ids) for plugin in plugins for ids in plugin.allocated] == [4, 3]
    assert node.kubelet.list_during_allocate == 0


def test_a_mount_that_is_read_only_cannot_be_written_or_unmounted(node: OneNode) -> None:
    node.plugin(MEM, 4)
    script = "echo x > $F || echo denied; umount $F || echo held; rm $F".replace("$F", "/etc/vgpu/vgpu.conf")
    node.create("one", container(mem=1, command=["sh", "-c", script]), restartPolicy="Never")
    node.until_phase("one", "Failed")
    assert "Read-only file system" in node.log("one")
    assert "denied\n" in node.log("one")
    assert "held\n" in node.log("one")
    assert "Device or resource busy" in node.log("one")


def test_a_pods_own_environment_overrides_a_plugins(node: OneNode) -> None:
    node.plugin(MEM, 4)
    mine = container(mem=2, command=["env"], env=[{"name": "TICKETS_DCU_MEM", "value": "mine"}])
    node.create("one", mine, restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    assert "TICKETS_DCU_MEM=mine\n" in node.log("one")


def test_the_process_group_of_a_container_is_published_while_it_lives(node: OneNode) -> None:
    pod = node.create("one", container(command=["sleep", "infinity"]), terminationGracePeriodSeconds=1)
    until(lambda: node.groups(pod), "process group file")
    pgid = int(node.groups(pod)[0].read_text())
    os.killpg(pgid, 0)
    node.delete("one")
    until(lambda: node.gone("one"))
    assert not node.groups(pod)


def test_twenty_pods_in_flight_each_get_their_own_config(make_node) -> None:
    seen: dict[str, str] = {}
    lock = threading.Lock()

    def on_start(pod, _name, files, _env) -> None:
        with lock:
            seen[pod["metadata"]["name"]] = files["/etc/vgpu/vgpu.conf"].decode()

    node = make_node(on_start=on_start)
    node.plugin(MEM, 60)
    node.plugin(CORES, 60)
    names = [f"pod-{i}" for i in range(20)]
    for name in names:
        node.create(name, container(mem=3, cores=2))
    for name in names:
        node.until_phase(name, "Running")
    assert seen == {name: f"pod={name} tickets=3\n" for name in names}
