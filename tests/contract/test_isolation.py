"""The admission policies that keep a pod with a slice from the rest of its node."""

import copy
from typing import Any

import pytest

from tests.builders.objects import binding, pod
from tests.contract.asking import SLICE, asking, container, refused
from tests.contract.cluster import PODS, Answer, Cluster, nowhere

GRANT = "vgpu.io/grant"


# Every spelling of a path at, above or below one of ours.
OVER = [
    "/etc/vgpu", "/etc/vgpu/", "/etc/vgpu/vgpu.conf", "/etc", "/", "/.", "//etc//vgpu", "/./etc/./vgpu", "etc/vgpu",
    "./etc", "/etc/vdev", "/etc/vdev/docker/vdev0.conf", "/etc/ld.so.preload", "/etc/ld.so.preload/", "/usr",
    "/usr/local", "/usr/local/vgpu", "/usr/local/vgpu/libvgpu.so", "/var", "/var/run", "/var/run/vgpu", "/run",
    "/run/vgpu", "/run/vgpu/usage", "/var//run/./vgpu/", "/data/../etc/vgpu", "/data/..", "..", "../etc", "/dev",
    "/dev/kfd", "/dev/dri", "/dev/dri/renderD128", "/dev/mkfd",
]  # fmt: skip
# And of one that leads to ours by a link, as the runtime resolves it when it mounts.
ELSEWHERE = [
    "/proc/self/root/usr/local/vgpu", "/proc/1/root/usr/local/vgpu", "/proc/thread-self/root/usr/local/vgpu",
    "/proc/self/task/1/root/usr/local/vgpu", "/proc/1/task/1/root/etc/vgpu/vgpu.conf",
    "/proc/self/root/etc/ld.so.preload", "/proc/self/root/proc/self/root/usr/local/vgpu", "/proc/self/root/dev/kfd",
    "/proc/self/root", "/proc/self/root/", "proc/self/root/usr/local", "//proc/./self//root/etc", "/proc/self/cwd",
    "/proc/self/cwd/usr/local/vgpu", "/proc/self/exe", "/proc/self/fd/3", "/proc/self/fd/6/usr",
    "/proc/self/map_files", "/proc/self/ns/mnt", "/proc/mounts", "/proc", "/proc/", "/proc/sys/kernel",
    "/proc/2/root/etc", "/sys", "/sys/class/kfd", "/sys/class/kfd/kfd/topology",
    "/sys/devices/virtual/kfd", "/sys/fs/cgroup", "/sys/dev/char", "/dev/fd", "/dev/fd/3", "/dev/stdin", "/dev/stdout",
    "/dev/stderr", "/dev/fd/../kfd", "/usr/../proc/self/root",
]  # fmt: skip


def refused_at(answer: Answer, where: str) -> None:
    refused(answer, "vgpu-isolation", f"container main: volume mount at {where}:", "mount it elsewhere")


@pytest.mark.parametrize("where", OVER + ELSEWHERE)
def test_nothing_is_mounted_over_our_paths(cluster: Cluster, name: str, where: str) -> None:
    body = asking(name, containers=[container(volumeMounts=[{"name": "v", "mountPath": where}])])
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    refused_at(cluster.post(PODS, body, "tenant"), where)


@pytest.mark.parametrize(
    "where",
    ["/etc/vgpu/vgpu.conf", "/etc/ld.so.preload", "/dev//kfd", "/dev/dri/renderD128", "/dev/mkfd",
     "/proc/self/root/dev/kfd", "/proc/1/root/etc/ld.so.preload", "/sys/class/kfd", "/dev/fd/3", "/dev/stdout"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["devicePath", "terminationMessagePath"])
def test_no_block_device_nor_last_word_stands_where_ours_does(
    cluster: Cluster, name: str, where: str, kind: str
) -> None:
    more = {kind: where} if kind[0] == "t" else {"volumeDevices": [{"name": "b", kind: where}]}
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}]
    body = asking(name, containers=[mounts("/data", **more)], volumes=volumes)
    refused_at(cluster.post(PODS, body, "tenant"), where)


@pytest.mark.parametrize("sub", [{"subPath": "a"}, {"subPathExpr": "$(A)"}, {"readOnly": True}])
def test_a_part_of_a_volume_hides_our_files_as_well(cluster: Cluster, name: str, sub: dict[str, Any]) -> None:
    body = asking(name, containers=[container(volumeMounts=[{"name": "v", "mountPath": "/etc/vgpu", **sub}])])
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", "mount it elsewhere")


# The last are links in usual images, which lead to nothing of ours.
BESIDE = [
    "/data", "/data/", "data2", "//data3//x/./y", "/etcetera", "/etc/vgpux", "/etc/app", "/usr/local/lib",
    "/var/run/secrets/x", "/dev/shm", "/dev/hugepages", "/dev/mqueue", "/a..b", "/home/u/.cache/x",  # noqa: S108
    "/process/self/root", "/procfs", "/system", "/home/jovyan", "/home/jovyan/proc/self/root", "/var/run/foo",
    "/mnt/dev/fd", "/opt/sys", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/lib", "/usr/tmp", "/var/lock",
    "/etc/mtab", "/srv/" + 300 * "long/",
]  # fmt: skip


def mounts(*paths: str, **more: Any) -> dict[str, Any]:
    """The main container with a mount at each path."""
    return container(volumeMounts=[{"name": "v", "mountPath": path} for path in paths], **more)


@pytest.mark.parametrize(
    "paths", [[], BESIDE, [f"/mnt/{n}" for n in range(64)]], ids=["none", "beside", "many"]
)
def test_mounts_elsewhere_are_fine(name: str, accepted: Any, paths: list[str]) -> None:
    accepted(asking(name, containers=[mounts(*paths)], volumes=[{"name": "v", "emptyDir": {}}]))


@pytest.mark.parametrize(
    "folder",
    ["/", "/dev", "/dev/", "//dev/.", "/dev/kfd", "/dev/mkfd", "/dev/dri", "/dev/char", "/dev/vfio/1", "/dev/nvme0n1",
     "/proc", "/proc/1/root", "/run", "/var/lib",
     "/var/lib/vgpu", "/var/lib/kubelet/pods", "/etc/cdi", "/var/run/cdi", "/run/cdi", "/sys", "/run/docker.sock",
     "/var/lib/containerd", "/var/lib/docker/overlay2", "/var/lib/rancher", "/run/k3s", "/var/run/k3s/containerd",
     "/var/lib/k0s/kubelet/pods", "/run/k0s/containerd.sock",
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
    "folder",
    ["/data", "/dev/infiniband", "/dev/log", "/dev/hugepages-2Mi", "/var/lib/vgpux", "/var/lib/dockers",
     "/mnt/dev"],
)  # fmt: skip
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
    ["cap_sys_rawio", "SYS_CHROOT", "CAP_SYS_CHROOT", "SYS_BOOT", "BPF",
     "PERFMON", "CAP_MKNOD", "MKNOD", "DAC_READ_SEARCH", "NET_ADMIN", "CHOWN ",
     " CHOWN", "CHOWN,KILL", "CAP_CAP_CHOWN", "CHOWNS", ""],
)  # fmt: skip
def test_no_capability_is_added_that_could_undo_limits(cluster: Cluster, name: str, added: str) -> None:
    body = asking(name, containers=[container(securityContext={"capabilities": {"add": [added]}})])
    refused(
        cluster.post(PODS, body, "tenant"), "vgpu-isolation", "can add only the capabilities", "remove them"
    )


@pytest.mark.parametrize(
    "added",
    [[], ["IPC_LOCK", "SYS_PTRACE"], ["CAP_NET_BIND_SERVICE"], ["chown"], ["SETUID", "SETGID", "SYS_NICE"]],
)
def test_other_capabilities_are_fine(name: str, accepted: Any, added: list[str]) -> None:
    accepted(asking(name, containers=[container(securityContext={"capabilities": {"add": added}})]))


def test_harmless_contexts_are_fine(name: str, accepted: Any) -> None:
    context = {"privileged": False, "runAsUser": 0, "capabilities": {"add": ["KILL"], "drop": ["ALL"]}}
    accepted(asking(name, hostPID=False, containers=[container(securityContext=context)]))


def test_the_hosts_processes_stay_out_of_sight(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, asking(name, hostPID=True), "tenant")
    refused(answer, "vgpu-isolation", "cannot use hostPID", "remove it")


UNCONFINED = {"seccompProfile": {"type": "Unconfined"}}


@pytest.mark.parametrize("kind", ["pod", "containers", "initContainers"])
def test_nothing_runs_without_a_seccomp_profile(cluster: Cluster, name: str, kind: str) -> None:
    body = asking(name, initContainers=[container("first", {})])
    place = body["spec"] if kind == "pod" else body["spec"][kind][0]
    place["securityContext"] = UNCONFINED
    answer = cluster.post(PODS, body, "tenant")
    refused(answer, "vgpu-isolation", "seccomp profile Unconfined", "write type: RuntimeDefault")


def test_proc_is_masked_as_usual(cluster: Cluster, name: str, accepted: Any) -> None:
    body = asking(name, hostUsers=False, containers=[container(securityContext={"procMount": "Unmasked"})])
    refused(
        cluster.post(PODS, body, "tenant"), "vgpu-isolation", "cannot change procMount", "leave procMount out"
    )
    accepted(asking(name, containers=[container(securityContext={"procMount": "Default"})]))


def test_no_runtime_gives_cards_by_environment(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, asking(name, runtimeClassName="amd"), "tenant")
    if answer.refusal[0] != 403:  # where there is no such class, Kubernetes says so first
        refused(answer, "vgpu-isolation", "runtimeClassName amd:", "remove runtimeClassName")


@pytest.mark.parametrize(
    "variable",
    [{"name": "AMD_VISIBLE_DEVICES", "value": "all"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"},
     {"name": "DCU_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
     {"name": "HCU_VISIBLE_DEVICES", "value": "0,1"}, {"name": "VHCU_VISIBLE_DEVICES", "value": "0"},
     {"name": "MIG_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
     {"name": "RESOURCE_REGISTER_STRATEGY", "value": "hami"}],
    ids=lambda variable: variable["name"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_no_variable_asks_the_runtime_for_cards(
    cluster: Cluster, name: str, variable: dict[str, Any], kind: str
) -> None:
    body = asking(name, initContainers=[container("first", {})])
    body["spec"][kind][0]["env"] = [{"name": "A", "value": "all"}, variable]
    refused(
        cluster.post(PODS, body, "tenant"),
        "vgpu-isolation",
        f": variable {variable['name']}:",
        "write an empty value",
    )


@pytest.mark.parametrize(
    "variable", ["MIG_VISIBLE_DEVICES", "RESOURCE_REGISTER_STRATEGY", "VHCU_VISIBLE_DEVICES"]
)
@pytest.mark.parametrize("value", ["none", "void"])
def test_hygons_runtime_adds_something_for_any_text(
    cluster: Cluster, name: str, accepted: Any, variable: str, value: str
) -> None:
    env = [{"name": variable, "value": value}]
    answer = cluster.post(PODS, asking(name, containers=[container(env=env)]), "tenant")
    refused(answer, "vgpu-isolation", f"container main: variable {variable}:", "write an empty value")
    accepted(asking(name, containers=[container(env=[{"name": variable, "value": ""}, {"name": "A"}])]))


def test_a_program_may_choose_among_its_cards(name: str, accepted: Any) -> None:
    variables = [
        {"name": "HIP_VISIBLE_DEVICES", "value": "0"}, {"name": "ROCR_VISIBLE_DEVICES", "value": "0"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "AMD_VISIBLE_DEVICES", "value": ""},
    ]  # fmt: skip
    accepted(asking(name, containers=[container(env=variables)]))


@pytest.mark.parametrize("priority", ["system-node-critical", "system-cluster-critical"])
def test_no_pod_with_a_slice_ranks_as_a_part_of_the_system(
    cluster: Cluster, name: str, accepted: Any, priority: str
) -> None:
    body = asking(name, priorityClassName=priority)
    words = f"priorityClassName {priority}:", "only in namespace kube-system", "write another priority class"
    refused(cluster.post(PODS, body, "tenant"), "vgpu-isolation", *words)
    theirs = "/api/v1/namespaces/kube-system/pods"
    assert cluster.post(theirs, body, "tenant").code == 201
    cluster.delete(f"{theirs}/{name}?gracePeriodSeconds=0")
    accepted(pod(name, priorityClassName=priority))


DEBUG = {"name": "d", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"securityContext": {"privileged": True}}, "remove privileged: true"),
        ({"securityContext": {"capabilities": {"add": ["SYS_CHROOT"]}}}, "can add only the capabilities"),
        ({"securityContext": UNCONFINED}, "seccomp profile Unconfined"),
        ({"env": [{"name": "AMD_VISIBLE_DEVICES", "value": "all"}]}, "variable AMD_VISIBLE_DEVICES"),
    ],
    ids=["privileged", "capabilities", "unconfined", "variable"],
)
def test_an_ephemeral_container_may_not_do_more(
    cluster: Cluster, name: str, path: str, accepted: Any, more: dict[str, Any], words: str
) -> None:
    accepted(asking(name))
    change = {"spec": {"ephemeralContainers": [{**DEBUG, **more}]}}
    answer = cluster.patch(f"{path}/ephemeralcontainers", change, "tenant")
    refused(answer, "vgpu-isolation", words)


def test_an_ephemeral_container_that_does_no_more_is_fine(
    cluster: Cluster, name: str, path: str, accepted: Any
) -> None:
    accepted(asking(name))
    change = {"spec": {"ephemeralContainers": [DEBUG]}}
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
    forbidden(cluster.post(where, binding(name, nowhere(name), annotations={GRANT: "{}"}), role))
    assert "nodeName" not in cluster.get(pending).body["spec"]


@pytest.fixture
def granted(cluster: Cluster, name: str, pending: str) -> str:
    """The path of a pod that the allocator bound with a grant."""
    answer = cluster.post(
        f"{pending}/binding", binding(name, nowhere(name), annotations={GRANT: "true"}), "allocator"
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
