"""The admission policies that keep a pod with a slice from the rest of its node."""

import copy
from typing import Any

import pytest

from tests.contract.asking import SLICE, asking, container, refused
from tests.contract.cluster import PODS, Answer, Cluster, binding, pod

GRANT = "vgpu.io/grant"


OVER = [
    "/etc/vgpu", "/etc/vgpu/", "/etc/vgpu/vgpu.conf", "/etc", "/", "/.", "//etc//vgpu", "/./etc/./vgpu", "etc/vgpu",
    "./etc", "/etc/vdev", "/etc/vdev/docker/vdev0.conf", "/etc/ld.so.preload", "/etc/ld.so.preload/", "/usr",
    "/usr/local", "/usr/local/vgpu", "/usr/local/vgpu/libvgpu.so", "/var", "/var/run", "/var/run/vgpu", "/run",
    "/run/vgpu", "/run/vgpu/usage", "/var//run/./vgpu/", "/data/../etc/vgpu", "/data/..", "..", "../etc", "/dev",
    "/dev/kfd", "/dev/dri", "/dev/dri/renderD128",
]  # fmt: skip


@pytest.mark.parametrize("where", OVER)
def test_nothing_is_mounted_over_our_paths(cluster: Cluster, name: str, where: str) -> None:
    body = asking(name, containers=[container(volumeMounts=[{"name": "v", "mountPath": where}])])
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    answer = cluster.post(PODS, body, "tenant")
    refused(answer, "vgpu-isolation", f"volume mount at {where}:", "mount it elsewhere")


@pytest.mark.parametrize(
    "where", ["/etc/vgpu/vgpu.conf", "/etc/ld.so.preload", "/dev//kfd", "/dev/dri/renderD128"]
)
def test_no_block_device_stands_where_ours_does(cluster: Cluster, name: str, where: str) -> None:
    body = asking(name, containers=[container(volumeDevices=[{"name": "v", "devicePath": where}])])
    body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    answer = cluster.post(PODS, body, "tenant")
    refused(answer, "vgpu-isolation", f"volume mount at {where}:", "mount it elsewhere")


@pytest.mark.parametrize("sub", [{"subPath": "a"}, {"subPathExpr": "$(A)"}, {"readOnly": True}])
def test_a_part_of_a_volume_hides_our_files_as_well(cluster: Cluster, name: str, sub: dict[str, Any]) -> None:
    body = asking(name, containers=[container(volumeMounts=[{"name": "v", "mountPath": "/etc/vgpu", **sub}])])
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", "mount it elsewhere")


BESIDE = [
    "/data",
    "/etcetera",
    "/etc/vgpux",
    "/etc/app",
    "/usr/local/lib",
    "/var/run/secrets/x",
    "/dev/shm",  # noqa: S108 - a path inside a pod
    "/a..b",
]


@pytest.mark.parametrize("where", BESIDE)
def test_mounts_beside_our_paths_are_fine(name: str, accepted: Any, where: str) -> None:
    body = asking(name, containers=[container(volumeMounts=[{"name": "v", "mountPath": where}])])
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    accepted(body)


def mounts(*paths: str, **more: Any) -> dict[str, Any]:
    """The main container with a mount at each path."""
    return container(volumeMounts=[{"name": "v", "mountPath": path} for path in paths], **more)


def test_no_block_device_nor_last_word_covers_our_files(cluster: Cluster, name: str) -> None:
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}]
    for more, words in (
        ({"volumeDevices": [{"name": "b", "devicePath": "/etc/vgpu/vgpu.conf"}]}, "/etc/vgpu/vgpu.conf:"),
        ({"terminationMessagePath": "/etc/ld.so.preload"}, "/etc/ld.so.preload:"),
    ):
        body = asking(name, containers=[mounts("/data", **more)], volumes=volumes)
        refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", f"volume mount at {words}")


@pytest.mark.parametrize(
    "paths",
    [[], ["/home/jovyan", "/home/jovyan/data"], ["/var/run/foo"], [f"/mnt/{n}" for n in range(64)]],
    ids=lambda paths: f"{len(paths)}: {' '.join(paths[:4])}",
)
def test_mounts_elsewhere_are_fine(name: str, accepted: Any, paths: list[str]) -> None:
    accepted(asking(name, containers=[mounts(*paths)], volumes=[{"name": "v", "emptyDir": {}}]))


@pytest.mark.parametrize(
    "folder",
    ["/", "/dev", "/dev/", "//dev/.", "/dev/kfd", "/dev/dri", "/dev/char", "/proc", "/proc/1/root", "/run", "/var/lib",
     "/var/lib/vgpu", "/var/lib/kubelet/pods", "/etc/cdi", "/var/run/cdi", "/run/cdi", "/sys", "/run/docker.sock",
     "/var/lib/containerd", "/var/lib/docker/overlay2", "/var/lib/rancher", "/run/k3s", "/var/run/k3s/containerd",
     "/run/nri", "/var/run/nri/nri.sock", "/var/lib/crio",
     "/run/containerd/containerd.sock", "/etc/kubernetes"],
)  # fmt: skip
def test_no_host_path_shows_devices_or_our_state(cluster: Cluster, name: str, folder: str) -> None:
    body = asking(name, volumes=[{"name": "v", "hostPath": {"path": folder}}])
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", "hostPath /", "mount a narrower folder")


def test_a_host_path_that_climbs_is_refused_by_kubernetes_itself(cluster: Cluster, name: str) -> None:
    body = asking(name, volumes=[{"name": "v", "hostPath": {"path": "/opt/../var/lib/vgpu"}}])
    answer = cluster.post(PODS, body, "tenant")
    assert answer.refusal == (422, "Invalid")
    assert 'spec.volumes[0].hostPath.path: Invalid value: "/opt/../var/lib/vgpu"' in answer.message


@pytest.mark.parametrize(
    "folder", ["/data", "/dev/infiniband", "/var/lib/vgpux", "/var/lib/dockers", "/mnt/dev"]
)
def test_other_host_paths_are_fine(name: str, accepted: Any, folder: str) -> None:
    accepted(asking(name, volumes=[{"name": "v", "hostPath": {"path": folder}}]))


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"privileged": True}, "remove privileged: true"),
        ({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}, "can add only the capabilities"),
        ({"capabilities": {"add": ["ALL"]}}, "can add only the capabilities"),
    ],
)
@pytest.mark.parametrize("place", ["containers", "initContainers", "beside"])
def test_no_container_of_the_pod_may_reach_other_cards(
    cluster: Cluster, name: str, context: dict[str, Any], words: str, place: str
) -> None:
    strong = container("strong", {}, securityContext=context)
    body = asking(name)
    if place == "containers":
        body["spec"]["containers"][0]["securityContext"] = context
    elif place == "initContainers":
        body["spec"]["initContainers"] = [strong]
    else:
        body["spec"]["containers"].append(strong)
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", words)


@pytest.mark.parametrize(
    "added",
    ["cap_sys_rawio", "SYS_BOOT", "BPF", "PERFMON", "CAP_MKNOD", "MKNOD", "DAC_READ_SEARCH", "NET_ADMIN", "CHOWN ",
     " CHOWN", "CHOWN,KILL", "CAP_CAP_CHOWN", "CHOWNS", ""],
)  # fmt: skip
def test_no_capability_is_added_that_could_undo_limits(cluster: Cluster, name: str, added: str) -> None:
    body = asking(name, containers=[container(securityContext={"capabilities": {"add": [added]}})])
    refused(
        cluster.post(PODS, body, "tenant"), "vgpu-isolation", "can add only the capabilities", "remove them"
    )


@pytest.mark.parametrize(
    "added",
    [[], ["IPC_LOCK", "SYS_PTRACE"], ["CAP_NET_BIND_SERVICE"], ["chown"], ["SETUID", "SETGID", "SYS_CHROOT"]],
)
def test_other_capabilities_are_fine(name: str, accepted: Any, added: list[str]) -> None:
    accepted(asking(name, containers=[container(securityContext={"capabilities": {"add": added}})]))


DEVICES = {"cdi.k8s.io/all": "vendor.com/gpu=all"}


def test_no_annotation_adds_devices(cluster: Cluster, name: str, accepted: Any) -> None:
    body = asking(name)
    body["metadata"]["annotations"] = DEVICES
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", "annotations cdi.k8s.io/", "remove them")
    body["metadata"]["annotations"] = {"example.com/cdi.k8s.io": "x"}
    accepted(body)


def test_a_pod_that_does_not_ask_may_have_any_annotation(name: str, accepted: Any) -> None:
    body = pod(name)
    body["metadata"]["annotations"] = DEVICES
    accepted(body)


def test_harmless_contexts_are_fine(name: str, accepted: Any) -> None:
    context = {"privileged": False, "runAsUser": 0, "capabilities": {"add": ["KILL"], "drop": ["ALL"]}}
    accepted(asking(name, hostPID=False, containers=[container(securityContext=context)]))


def test_the_hosts_processes_stay_out_of_sight(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, asking(name, hostPID=True), "tenant")
    refused(answer, "vgpu-isolation", "cannot use hostPID", "remove it")


def test_an_ephemeral_container_cannot_be_privileged_either(
    cluster: Cluster, name: str, path: str, accepted: Any
) -> None:
    accepted(asking(name))
    debug = {"name": "d", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    privileged = {**debug, "securityContext": {"privileged": True}}
    change = {"spec": {"ephemeralContainers": [privileged]}}
    answer = cluster.patch(f"{path}/ephemeralcontainers", change, "tenant")
    refused(answer, "vgpu-isolation", "remove privileged: true")
    change = {"spec": {"ephemeralContainers": [debug]}}
    assert cluster.patch(f"{path}/ephemeralcontainers", change, "tenant").code == 200


FORGERS = ("tenant", "agent", "admin")


def forbidden(answer: Answer) -> None:
    assert answer.refusal == (403, "Forbidden"), answer.body
    assert "ValidatingAdmissionPolicy 'vgpu-grants'" in answer.message
    assert (
        "only the allocator writes it: leave it out, and ask for a slice in resources.limits"
        in answer.message
    )


@pytest.mark.parametrize("role", FORGERS)
@pytest.mark.parametrize("limits", [SLICE, {}])
def test_a_grant_is_not_forged_at_creation(
    cluster: Cluster, name: str, role: str, limits: dict[str, str]
) -> None:
    body = pod(name, limits, schedulerName="vgpu-scheduler")
    body["metadata"]["annotations"] = {GRANT: "{}"}
    forbidden(cluster.post(PODS, body, role))


@pytest.mark.parametrize("role", FORGERS)
@pytest.mark.parametrize("sub", ["", "/status"])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_grant_is_not_forged_in_an_update(
    cluster: Cluster, pending: str, role: str, sub: str, method: str
) -> None:
    change: dict[str, Any] = {"metadata": {"annotations": {GRANT: "{}"}}}
    if method == "PATCH":
        answer = cluster.patch(pending + sub, change, role)
    else:
        whole = cluster.get(pending).body
        whole["metadata"].setdefault("annotations", {})[GRANT] = "{}"
        answer = cluster.put(pending + sub, whole, role)
    forbidden(answer)
    assert GRANT not in cluster.get(pending).body["metadata"].get("annotations", {})


@pytest.mark.parametrize("role", FORGERS)
@pytest.mark.parametrize("route", ["binding", "bindings"])
def test_a_grant_is_not_forged_with_a_binding(
    cluster: Cluster, name: str, pending: str, role: str, route: str
) -> None:
    where = f"{pending}/binding" if route == "binding" else "/api/v1/namespaces/default/bindings"
    forbidden(cluster.post(where, binding(name, "no-node", annotations={GRANT: "{}"}), role))
    assert "nodeName" not in cluster.get(pending).body["spec"]


@pytest.fixture
def granted(cluster: Cluster, name: str, pending: str) -> str:
    """The path of a pod that the allocator bound with a grant."""
    answer = cluster.post(
        f"{pending}/binding", binding(name, "no-node", annotations={GRANT: "true"}), "allocator"
    )
    assert answer.code == 201
    assert cluster.get(pending).body["metadata"]["annotations"][GRANT] == "true"
    return pending


@pytest.mark.parametrize("role", FORGERS)
@pytest.mark.parametrize("sub", ["", "/status"])
@pytest.mark.parametrize("value", ["other", "", None])
def test_a_grant_is_neither_changed_nor_removed(
    cluster: Cluster, granted: str, role: str, sub: str, value: str | None
) -> None:
    forbidden(cluster.patch(granted + sub, {"metadata": {"annotations": {GRANT: value}}}, role))
    assert cluster.get(granted).body["metadata"]["annotations"][GRANT] == "true"


def test_a_kubelet_forges_nothing_in_a_status(cluster: Cluster, pending: str) -> None:
    forbidden(cluster.patch(f"{pending}/status", {"metadata": {"annotations": {GRANT: "{}"}}}, "kubelet"))


def test_the_allocator_may_change_a_grant(cluster: Cluster, granted: str) -> None:
    change = {"metadata": {"annotations": {GRANT: "next"}}}
    assert cluster.patch(granted, change, "allocator").body["metadata"]["annotations"][GRANT] == "next"


def test_writes_that_leave_the_grant_alone_pass(cluster: Cluster, granted: str) -> None:
    assert cluster.patch(granted, {"metadata": {"labels": {"a": "1"}}}, "tenant").code == 200
    status = copy.deepcopy(cluster.get(granted).body)
    status["status"]["phase"] = "Running"
    assert cluster.put(f"{granted}/status", status, "kubelet").code == 200
