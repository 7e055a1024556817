"""What a program says of its progress arrives, and the files that it may write take nothing of the node."""

import pytest

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, is_ready
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.exposed import families

SAYS = """printf '%-63s\\n' "120000 1281167" 1<>"$VGPU_PROGRESS" """
# Every way to more room that a shell has; what is left is what the file holds then.
GREEDY = """
for file in /var/run/vgpu/progress /var/run/vgpu/usage; do
    dd if=/dev/zero of=$file bs=256k count=1 conv=notrunc
    dd if=/dev/zero of=$file bs=4k count=1 seek=100000 conv=notrunc
    fallocate -l 2147483648 $file
    chmod 0 $file; chown 1:1 $file
    rm -f $file; mv -f /etc/hostname $file; ln $file /var/run/vgpu/more
done 2>/dev/null
stat -f -c '%S %b %f' /var/run/vgpu/progress
"""


def done(node: str, name: str) -> float | None:
    """What the agent says that the pod's program has done."""
    return exported(node).get("vgpu_progress_done", {}).get(name)


def exported(node: str) -> dict[str, dict[str, float]]:
    """What the agent says of the files and of progress, by metric and container."""
    found = families(service.SYSTEM.metrics(service.agent(node), service.AGENT_PORT))
    return {
        name: {sample.labels.get("pod", ""): sample.value for sample in family.samples}
        for name, family in found.items()
        if name.startswith(("vgpu_progress", "vgpu_checkpoints", "vgpu_writable"))
    }


def other_agent_is_ready(node: str, before: str) -> bool:
    """True if the node has a Ready agent that is not the pod `before`."""
    pods = service.SYSTEM.items(labels="app.kubernetes.io/component=node", fields=f"spec.nodeName={node}")
    return any(is_ready(pod) and pod["metadata"]["name"] != before for pod in pods)


@pytest.mark.disturbs
def test_progress_is_exported_and_outlives_the_agent(kubectl: Kubectl) -> None:
    node = nodes.first()
    kubectl.create(slice_pod("train", mem=1, cores=2, **nodes.on(node)))
    kubectl.running("train")
    assert done(node, "train") is None
    kubectl.inside("train", "sh", "-c", SAYS)
    assert eventually(lambda: done(node, "train") == 120000, 20)
    assert exported(node)["vgpu_progress_goal"]["train"] == 1281167
    before = service.agent(node)
    service.SYSTEM.gone(before)
    # The DaemonSet's own status may not have seen this yet.
    assert eventually(lambda: other_agent_is_ready(node, before), 60)
    assert eventually(lambda: done(node, "train") == 120000, 20)
    kubectl.inside("train", "sh", "-c", SAYS.replace("120000", "130000"))
    assert eventually(lambda: done(node, "train") == 130000, 20), "it is one file before and after"
    tools = "cd /usr/local/vgpu && ./vgpu-progress 140000 1281167 && ./vgpu-checkpoint done && ./vgpu-checkpoint done"
    kubectl.inside("train", "sh", "-c", f"{tools} && ! echo more 2>/dev/null >> vgpu-progress")
    assert eventually(lambda: exported(node).get("vgpu_checkpoints_total", {}).get("train") == 2, 20)
    assert done(node, "train") == 140000


def test_a_tenant_gets_no_more_of_the_node_than_two_small_files(kubectl: Kubectl) -> None:
    node = nodes.first()
    kubectl.create(*(slice_pod(name, mem=1, cores=2, **nodes.on(node)) for name in ("greedy", "other")))
    kubectl.running("greedy", "other")
    # A text of the agent may be from before both had their files; this one is not.
    kubectl.inside("greedy", "sh", "-c", SAYS)
    assert eventually(lambda: done(node, "greedy") == 120000, 20)
    spare = exported(node)["vgpu_writable_spare_containers"][""]
    assert spare > 0, "the tmpfs is mounted"
    block, blocks, free = map(int, kubectl.inside("greedy", "sh", "-c", GREEDY).split())
    assert (block, free) == (4096, 0)
    assert blocks * block < 256 << 20
    kubectl.inside("other", "sh", "-c", SAYS)
    assert eventually(lambda: done(node, "other") == 120000, 20)
    kubectl.gone("greedy")
    assert eventually(lambda: exported(node)["vgpu_writable_spare_containers"][""] > spare, 30)
    # Who comes next has fresh files, whatever owner and mode the last ones were given.
    kubectl.create(slice_pod("next", mem=1, cores=2, securityContext={"runAsUser": 1000}, **nodes.on(node)))
    kubectl.running("next")
    kubectl.inside("next", "sh", "-c", SAYS)
    assert eventually(lambda: done(node, "next") == 120000, 20)
