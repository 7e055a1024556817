"""What holds a container to its slice, in the real runtime: its seccomp profile, its capabilities, its files."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from device_plugin.kube.api import Kind
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.waiting import eventually
from tests.e2e.workloads import IMAGE, container, pod, slice_of, slice_pod
from tests.pages import shown

QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
# Each way out of the files that hold a container, and the word that is printed where it is open.
UNSHARE = "unshare -Urm true && echo unshare"
CHROOT = (
    "mkdir -p /dev/x/bin && cp /bin/busybox /dev/x/bin && ln /dev/null /dev/x/null"
    " && chroot /dev/x /bin/busybox true && echo chroot"
)
RENAME = "mv /etc /elsewhere && echo rename"
NOT_ROOT = {"runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False}
READ_ONLY = {"readOnlyRootFilesystem": True}


def ways_out(kubectl: Kubectl, name: str, *ways: str, inside: str = "main") -> list[str]:
    """Which of these ways are open in a container."""
    return kubectl.inside(
        name, "sh", "-c", f"( {'; '.join(ways)} ) 2>/dev/null; true", container=inside
    ).split()


def hip(kubectl: Kubectl, name: str) -> tuple[int, int, str]:
    """MiB and units that a HIP program finds in its container, and how it fares with 512 MiB."""
    seen = json.loads(kubectl.inside(name, "vgpu-probe", "info"))
    return (
        seen["total_mib"],
        seen["units"],
        json.loads(kubectl.inside(name, "vgpu-probe", "alloc", "512"))["error"],
    )


def confined(name: str, context: dict[str, Any]) -> dict[str, Any]:
    """A pod of 1 GiB and 2 core groups, whose container has this security context."""
    return pod(name, container(resources=slice_of(mem=1, cores=2), securityContext=context))


def test_nobody_leaves_the_files_of_the_slice(kubectl: Kubectl) -> None:
    kubectl.create(
        pod("plain"), confined("root", {}), confined("read-only", READ_ONLY), confined("not-root", NOT_ROOT)
    )
    kubectl.running()
    # So the machine does not forbid it anyway.
    assert ways_out(kubectl, "plain", UNSHARE, CHROOT) == ["unshare", "chroot"]
    assert ways_out(kubectl, "root", UNSHARE, CHROOT) == []
    for name in ("read-only", "not-root"):
        assert ways_out(kubectl, name, UNSHARE, CHROOT, RENAME) == []
    for name in ("root", "read-only", "not-root"):
        assert hip(kubectl, name) == (1023, 2, "hipSuccess")
    kubectl("debug", "root", f"--image={IMAGE}", "--container=debug", "--", "sleep", "1000")
    kubectl(
        "wait",
        "pod/root",
        "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.running}",
        "--timeout=180s",
    )
    assert ways_out(kubectl, "root", UNSHARE, CHROOT, inside="debug") == []


MBIND = r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts(syscall(SYS_mbind, page, 4096UL, 0, NULL, 0UL, 0) ? strerror(errno) : "done");
    return 0;
}
"""


def test_hip_runs_without_the_numa_calls_and_sys_nice_gives_them_back(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    (tmp_path / "mbind.c").write_text(MBIND)
    subprocess.run(["cc", "-static", "-o", tmp_path / "mbind", tmp_path / "mbind.c"], check=True)
    program = base64.b64encode((tmp_path / "mbind").read_bytes()).decode()
    kubectl.create(confined("usual", {}), confined("nice", {"capabilities": {"add": ["SYS_NICE"]}}))
    kubectl.running()
    for name, expected in (("usual", "Operation not permitted"), ("nice", "done")):
        command = "base64 -d > /mbind && chmod +x /mbind && /mbind"
        assert kubectl("exec", "--stdin", name, "--", "sh", "-c", command, given=program).strip() == expected
        assert hip(kubectl, name) == (1023, 2, "hipSuccess")


def test_pod_security_restricted_asks_for_no_profile(kubectl: Kubectl) -> None:
    kubectl("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted")
    context = {**NOT_ROOT, "capabilities": {"drop": ["ALL"]}}
    plain = pod("plain", container(securityContext=context))
    assert eventually(lambda: "seccompProfile" in kubectl.would_refuse(plain), 20)
    kubectl.create(confined("slice", context))
    kubectl.running("slice")
    assert hip(kubectl, "slice") == (1023, 2, "hipSuccess")


def test_no_other_runtime(kubectl: Kubectl) -> None:
    name = f"cards-{kubectl.namespace}"
    kubectl.create(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "cards",
        }
    )
    try:
        words = kubectl.refusal(slice_pod("bad", mem=1, runtimeClassName=name))
    finally:
        kubectl("delete", "runtimeclass", name)
    assert f"runtimeClassName {name}:" in words


def test_as_many_mounts_as_a_pod_can_have_are_judged(kubectl: Kubectl) -> None:
    """The API server gives an expression only so much to spend, and refuses what it could not judge."""

    def mounts(index: int, *more: str) -> list[dict[str, str]]:
        paths = [f"/{index}/{mount}{99 * '/mounted-0'}" for mount in range(64 - len(more))]
        return [{"name": "v", "mountPath": path} for path in (*paths, *more)]

    containers = [container(f"c{index}", volumeMounts=mounts(index)) for index in range(16)]
    containers[0]["resources"] = slice_of(mem=999)
    volumes = [{"name": "v", "emptyDir": {}}]
    kubectl.create(pod("many", *containers, volumes=volumes))
    containers[15]["volumeMounts"] = mounts(15, "/proc/self/root/etc")
    words = kubectl.refusal(pod("bad", *containers, volumes=volumes))
    assert "container c15: volume mount at /proc/self/root/etc:" in words


def test_no_device_by_annotation(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("waits", mem=999))
    change = json.dumps({"metadata": {"annotations": {"cdi.k8s.io/all": "vendor.com/gpu=all"}}})
    patch = ("patch", "pod", "waits", "--type=merge", "--patch", change)
    for route in ((), ("--subresource=status",)):
        with pytest.raises(KubectlError, match="annotations cdi"):
            kubectl(*patch, *route)
    kubectl(*patch, "--subresource=resize")  # which changes nothing else than amounts
    assert "cdi.k8s.io/all" not in kubectl.pod("waits")["metadata"].get("annotations", {})


def test_thousands_of_annotations_can_be_judged(kubectl: Kubectl) -> None:
    """Keys as short as the policy compares: the API server bounds the cost of an expression."""
    body = slice_pod("many", mem=999)
    body["metadata"]["annotations"] = {f"{number:012d}": "" for number in range(5_000)}
    kubectl.create(body)


def test_no_card_by_a_variable_that_admission_does_not_see(kubectl: Kubectl) -> None:
    names = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "env", "namespace": kubectl.namespace},
    }
    kubectl.create(
        {**names, "data": {"AMD_VISIBLE_DEVICES": "all", "VHCU_VISIBLE_DEVICES": "0", "OTHER": "all"}}
    )
    source = [{"configMapRef": {"name": "env"}}]
    kubectl.create(pod("takes", container(envFrom=source, resources=slice_of(mem=1))))
    kubectl.running("takes")
    seen = kubectl.inside("takes", "env").splitlines()
    assert [line for line in seen if line.startswith("AMD_VISIBLE_DEVICES")] == ["AMD_VISIBLE_DEVICES=void"]
    assert [line for line in seen if line.startswith("VHCU_VISIBLE_DEVICES")] == ["VHCU_VISIBLE_DEVICES="]
    assert "OTHER=all" in seen


def test_the_quota_that_the_docs_show_bounds_a_priority(kubectl: Kubectl) -> None:
    priority = f"important-{kubectl.namespace}"
    quota = shown("ResourceQuota", "gangs.md")
    quota["metadata"]["namespace"] = kubectl.namespace
    quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] = [priority]
    kubectl("create", "priorityclass", priority, "--value=1000")
    try:
        kubectl.create(quota)
        name = quota["metadata"]["name"]
        assert eventually(lambda: "used" in kubectl.get(QUOTAS, name).get("status", {}), 20)
        bounded = slice_pod("much", mem=17, priorityClassName=priority)
        assert eventually(lambda: "exceeded quota: important-slices" in kubectl.would_refuse(bounded), 20)
        kubectl.create(slice_pod("enough", mem=16, priorityClassName=priority), slice_pod("usual", mem=17))
    finally:
        kubectl("delete", "priorityclass", priority)
