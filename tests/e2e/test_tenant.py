"""A user who may do everything with pods tries to get what the allocator did not grant."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from device_plugin.kube.api import PODS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines
from tests.e2e.slices import grant, held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod

JANE = "jane"
RULES = [
    {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding", "bindings"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/log", "pods/exec", "configmaps"], "verbs": ["*"]},
]
FORGED = "only the allocator"


@pytest.fixture
def jane(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A tenant's kubectl, in the same namespace: pods in every way, and nothing else."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "pods"},
        "rules": RULES,
    }
    kubectl.create(role)
    kubectl("create", "rolebinding", "jane", "--role=pods", f"--user={JANE}")
    made = Kubectl(kubectl.namespace, JANE)
    assert eventually(lambda: may_create(made), 20)
    yield made
    # Whatever she did, the services live and others are served.
    kubectl.create(slice_pod("bystander", mem=1, cores=2))
    kubectl.running("bystander")


def may_create(jane: Kubectl) -> bool:
    """True once the API server knows her role and its binding, of which it learns by watches."""
    try:
        jane("auth", "can-i", "create", "pods")
    except KubectlError:
        return False
    return True


def forged(uid: str) -> str:
    """A grant of all of a card."""
    node = nodes.first()
    card = inventory(node)["cards"][0]
    slices = [{"card": card["uuid"], "memMiB": card["memMiB"], "cores": list(range(card["coreGroups"]))}]
    return json.dumps({"v": 1, "gen": 1, "pod": uid, "node": node, "containers": {"main": slices}})


def with_grant(body: dict[str, Any], uid: str = "0") -> dict[str, Any]:
    body["metadata"].setdefault("annotations", {})["vgpu.io/grant"] = forged(uid)
    return body


def annotation(uid: str) -> str:
    return json.dumps({"metadata": {"annotations": {"vgpu.io/grant": forged(uid)}}})


def binding(name: str, kind_path: str, uid: str) -> tuple[str, str]:
    body = {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "annotations": {"vgpu.io/grant": forged(uid)}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": nodes.first()},
    }  # fmt: skip
    return kind_path, json.dumps(body)


def test_a_grant_cannot_be_forged_by_any_route(jane: Kubectl) -> None:
    assert FORGED in jane.refusal(with_grant(slice_pod("made", mem=1)))
    jane.create(slice_pod("waits", mem=999))  # fits nowhere, so it has no node
    uid = jane.pod("waits")["metadata"]["uid"]
    attempts = [
        ("patch", "pod", "waits", "--type=merge", "--patch", annotation(uid)),
        ("patch", "pod", "waits", "--subresource=status", "--type=merge", "--patch", annotation(uid)),
    ]
    for attempt in attempts:
        with pytest.raises(KubectlError, match=FORGED):
            jane(*attempt)
    base = f"/api/v1/namespaces/{jane.namespace}"
    for path in (f"{base}/pods/waits/binding", f"{base}/bindings"):
        where, body = binding("waits", path, uid)
        with pytest.raises(KubectlError, match=FORGED):
            jane("create", "--raw", where, "--filename", "-", given=body)
    assert not grant(jane, "waits")
    assert "nodeName" not in jane.pod("waits")["spec"]


def test_a_binding_without_a_grant_starts_nothing(jane: Kubectl) -> None:
    jane.create(slice_pod("waits", mem=999))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits"},
        "target": {"kind": "Node", "name": nodes.first()},
    }
    path = f"/api/v1/namespaces/{jane.namespace}/pods/waits/binding"
    try:
        jane("create", "--raw", path, "--filename", "-", given=json.dumps(body))
    except KubectlError:
        assert "nodeName" not in jane.pod("waits")["spec"]
        return
    assert eventually(lambda: jane.phase("waits") == "Failed", 60), "the kubelet has not so many tickets"


def test_a_grant_cannot_be_edited_after_binding(jane: Kubectl, kubectl: Kubectl) -> None:
    jane.create(slice_pod("one", mem=1, cores=2))
    jane.running("one")
    before, uid = grant(kubectl, "one"), jane.pod("one")["metadata"]["uid"]
    for change in (annotation(uid), '{"metadata": {"annotations": {"vgpu.io/grant": null}}}'):
        with pytest.raises(KubectlError, match=FORGED):
            jane("patch", "pod", "one", "--type=merge", "--patch", change)
    assert grant(kubectl, "one") == before


def test_an_inventory_cannot_be_forged(jane: Kubectl) -> None:
    with pytest.raises(KubectlError, match=r"forbidden|cannot patch"):
        jane("annotate", "node", nodes.first(), "--overwrite", "vgpu.io/cards={}")
    other = Kubectl(user="system:serviceaccount:vgpu-system:vgpu-node")
    with pytest.raises(KubectlError, match="only the vgpu agent on that node"):
        other("annotate", "node", nodes.first(), "--overwrite", "vgpu.io/cards={}")


WAYS_ROUND = (
    (slice_pod("bad", mem=1, nodeName="n1"), "leave nodeName out"),
    (slice_pod("bad", mem=1, schedulerName="default-scheduler-2"), "write schedulerName: vgpu-scheduler"),
    (
        pod("bad", container(resources=slice_of(mem=1), volumeMounts=[{"name": "v", "mountPath": "/etc/vgpu"}]),
            volumes=[{"name": "v", "emptyDir": {}}]),
        "/etc/vgpu",
    ),
    (
        pod("bad", container(resources=slice_of(mem=1), volumeMounts=[{"name": "v", "mountPath": "/etc"}]),
            volumes=[{"name": "v", "emptyDir": {}}]),
        "/etc",
    ),
    (
        pod("bad", container(resources=slice_of(mem=1), securityContext={"capabilities": {"add": ["BPF"]}})),
        "can add only the capabilities",
    ),
    (pod("bad", container(resources=slice_of(mem=1), securityContext={"privileged": True})), "privileged"),
    (slice_pod("bad", mem=1, volumes=[{"name": "v", "hostPath": {"path": "/dev"}}]), "hostPath /dev"),
)  # fmt: skip


def test_what_would_get_round_the_allocator_is_refused(jane: Kubectl, subtests: pytest.Subtests) -> None:
    for body, words in WAYS_ROUND:
        with subtests.test(words):
            assert words in jane.refusal(body)


def test_a_static_pod_gets_no_slice(kubectl: Kubectl, machines: Machines) -> None:
    """Somebody who can write files on the node asks for a slice there, past every API server."""
    body = slice_pod("static", mem=1, cores=2)
    body["metadata"]["namespace"] = kubectl.namespace
    machines.run("n1", "sh", "-c", f"echo '{json.dumps(body)}' > static-pods/static.json")
    try:
        kubectl.create(slice_pod("beside", mem=1, cores=2, nodeSelector={"kubernetes.io/hostname": "n1"}))
        kubectl.running("beside")
        assert not kubectl.has(PODS, "static-n1")
        running = machines.run("n1", "sh", "-c", "ls /var/lib/vgpu /run/cdi")
        assert held(kubectl, "beside")
        assert "static" not in running
        replica = service.leader()
        assert all("static" not in entry[1] for entry in service.held(replica))
    finally:
        machines.run("n1", "rm", "-f", "static-pods/static.json")
