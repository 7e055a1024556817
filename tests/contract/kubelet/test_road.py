"""One pod through registration, Allocate, PreStartContainer, CDI and a container, and back."""

from functools import partial

from tests.contract.kubelet.node import Node


def test_containers_find_the_config_that_was_written_for_their_pod(node: Node) -> None:
    """Eight at once, of two resources each."""
    plugins = [node.plugin(node.mem, 32), node.plugin(node.cores, 24)]
    names = [f"pod-{i}" for i in range(8)]
    # None ends while others are admitted: PodResources List would hand its tickets out twice (kubernetes#137534).
    command = ["sh", "-c", "cat /etc/vgpu/vgpu.conf; sleep 1000"]
    for name in names:
        node.create(name, node.container(mem=4, cores=3, command=command))
    for name in names:
        node.until_phase(name, "Running")
        node.until(partial(node.log, name))
        assert node.log(name) == f"{node.config(name)}4\n"
    assert [[len(ids) for ids in plugin.allocated] for plugin in plugins] == [[4] * 8, [3] * 8]


def test_a_mount_that_is_read_only_cannot_be_written_or_unmounted(node: Node) -> None:
    node.plugin(node.mem, 4)
    script = "echo x > $F || echo denied; umount $F || echo held; rm $F".replace("$F", "/etc/vgpu/vgpu.conf")
    node.create("one", node.container(mem=1, command=["sh", "-c", script]), restartPolicy="Never")
    node.until_phase("one", "Failed")
    assert "Read-only file system" in node.log("one")
    assert "denied\n" in node.log("one")
    assert "held\n" in node.log("one")
    assert "Device or resource busy" in node.log("one")


def test_a_label_may_be_in_the_environment(node: Node) -> None:
    """As the index of a pod is in an Indexed Job."""
    source = {"fieldRef": {"fieldPath": "metadata.labels['example.com/index']"}}
    variable = {"name": "INDEX", "valueFrom": source}
    node.create(
        "one", node.container(command=["env"], env=[variable]), restartPolicy="Never",
        labels={"example.com/index": "7"},
    )  # fmt: skip
    node.until_phase("one", "Succeeded")
    assert "INDEX=7" in node.log("one").splitlines()


def test_what_is_written_on_a_pod_reaches_its_file(node: Node) -> None:
    """As the request for a checkpoint does."""
    source = {"path": "request", "fieldRef": {"fieldPath": "metadata.annotations['example.com/request']"}}
    volume = {"name": "info", "downwardAPI": {"items": [source]}}
    mounts = [{"name": "info", "mountPath": "/var/info"}]
    script = (
        'echo "at first: $(cat /var/info/request)"; until grep -q 7 /var/info/request; do sleep 0.05; done'
    )
    container = node.container(command=["sh", "-c", script], volumeMounts=mounts)
    node.create("one", container, volumes=[volume], restartPolicy="Never")
    node.until_phase("one", "Running")
    node.until(partial(node.log, "one"))
    node.annotate("one", {"example.com/request": "7"})
    node.until_phase("one", "Succeeded")
    assert node.log("one") == "at first: \n"


def test_whose_environment_wins(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    plugin.env = {"FROM_ALLOCATE": "plugin", "ONLY_ALLOCATE": "plugin"}
    own = [{"name": "TICKETS_MEM", "value": "pod"}, {"name": "FROM_ALLOCATE", "value": "pod"}]
    node.create("one", node.container(mem=2, command=["env"], env=own), restartPolicy="Never")
    node.until_phase("one", "Succeeded")
    seen = set(node.log("one").splitlines())
    assert {"ONLY_ALLOCATE=plugin", "FROM_ALLOCATE=pod", "TICKETS_MEM=2"} <= seen
