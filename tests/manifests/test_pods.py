"""What the pods of the services may do on their nodes, and what they are told."""

import copy
from typing import Any

from device_plugin.cli.check.installation import NODE_AGENTS
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import AGENT_LABELS
from device_plugin.node.vendors.host_stack import CARD_NODE
from device_plugin.node.vendors.hygon import Hygon
from device_plugin.wiring.commands import parse
from device_plugin.wiring.mount_writable import DEFAULT_CONTAINERS
from device_plugin.wiring.setting_sources import load
from device_plugin.wiring.settings import ClusterSettings, NodeSettings
from hack.embedded.apiserver.resources import PODS
from hack.embedded.apiserver.selectors import selects
from hack.embedded.apiserver.store import Stored
from hack.testbed.images.oci import ARCHITECTURE
from hack.testbed.images.ours import NAME, SIMULATED, TAG
from tests.manifests.conftest import Installation, rendered, written

# On nodes other than Hygon's the kubelet would make the others, empty.
HYGON_FOLDERS = {"/opt/hyhal", "/usr/local/hyhal", "/opt/dtk", "/etc/vdev", "/etc/dmi_mig_config"}
AGENT_FOLDERS = {
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/pod-resources",
    "/var/run/cdi",
    "/var/lib/vgpu",
    "/sys/fs/cgroup",
    "/proc",
}


def test_no_container_may_more_than_it_needs(each: Installation) -> None:
    for container in each.containers():
        allowed = container["securityContext"]
        if container["name"] == "writable":
            continue
        added = {"add": ["DAC_OVERRIDE"]} if container["name"] == "agent" else {}
        assert allowed["capabilities"] == {"drop": ["ALL"], **added}, container["name"]
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["allowPrivilegeEscalation"] is False
        assert not allowed.get("privileged")
    for pod in each.pods().values():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()


def test_what_mounts_the_tmpfs_may_mount_below_the_agents_state_and_ends_before_the_agent(
    each: Installation,
) -> None:
    pod = each.pods()["vgpu-node"]
    (writable,) = [container for container in pod["initContainers"] if container["name"] == "writable"]
    assert writable["securityContext"] == {
        "privileged": True,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    assert "restartPolicy" not in writable
    state = {"name": "state", "mountPath": "/var/lib/vgpu"}
    assert writable["volumeMounts"] == [{**state, "mountPropagation": "Bidirectional"}]
    (agent,) = pod["containers"]
    assert {**state, "mountPropagation": "HostToContainer"} in agent["volumeMounts"]
    command, *flags = writable["args"]
    arguments = parse([command, *flags])
    assert (arguments.state_dir, arguments.containers) == (NodeSettings().state_dir, DEFAULT_CONTAINERS)


def test_the_cluster_service_is_not_root(each: Installation) -> None:
    pod = each.pods()["vgpu-cluster"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert not [container for container in pod["containers"] if "runAsUser" in container["securityContext"]]


def test_only_the_agent_sees_folders_of_its_node_and_only_these(each: Installation) -> None:
    folders = {
        name: {volume["hostPath"]["path"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
        for name, pod in each.pods().items()
    }
    assert folders["vgpu-cluster"] == set()
    assert folders["vgpu-node"] - {"/var/lib/vgpu-sim"} == AGENT_FOLDERS
    assert folders["vgpu-node-hygon"] == folders["vgpu-node"] | HYGON_FOLDERS


def test_the_agents_of_hygons_nodes_see_the_makers_folders_and_change_nothing_there(
    each: Installation,
) -> None:
    pod = each.pods()["vgpu-node-hygon"]
    paths = {
        v["name"]: v["hostPath"] for v in pod["volumes"] if v.get("hostPath", {}).get("path") in HYGON_FOLDERS
    }
    (agent,) = pod["containers"]
    mounts = [mount for mount in agent["volumeMounts"] if mount["name"] in paths]
    assert {mount["mountPath"] for mount in mounts} == HYGON_FOLDERS
    assert all(mount["readOnly"] and paths[mount["name"]]["path"] == mount["mountPath"] for mount in mounts)
    # On a node where one is missing the agents come up all the same.
    assert {path["type"] for path in paths.values()} == {"DirectoryOrCreate"}
    given = {path.partition(":")[0] for path in Hygon.MOUNTS} - {CARD_NODE}
    assert given <= HYGON_FOLDERS


def test_hygons_nodes_have_agents_of_their_own_that_differ_in_nothing_else(each: Installation) -> None:
    pods: list[Any] = [copy.deepcopy(each.pods()[name]) for name in NODE_AGENTS]
    others, hygon = pods
    terms = [
        pod.pop("affinity")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        for pod in pods
    ]
    assert terms == [
        [{"matchExpressions": [{"key": "vgpu.io/maker", "operator": operator, "values": ["hygon"]}]}]
        for operator in ("NotIn", "In")
    ]
    added = {v["name"] for v in hygon["volumes"]} - {v["name"] for v in others["volumes"]}
    hygon["volumes"] = [volume for volume in hygon["volumes"] if volume["name"] not in added]
    (agent,) = hygon["containers"]
    agent["volumeMounts"] = [mount for mount in agent["volumeMounts"] if mount["name"] not in added]
    assert hygon == others


def test_no_daemon_set_takes_a_pod_of_the_other_for_its_own_and_whoever_looks_for_agents_finds_both(
    each: Installation,
) -> None:
    others, hygon = (each.one("DaemonSet", name)["spec"] for name in NODE_AGENTS)
    for one, other in ((others, hygon), (hygon, others)):
        selector, labels = one["selector"]["matchLabels"], other["template"]["metadata"]["labels"]
        assert selector.items() <= one["template"]["metadata"]["labels"].items()
        assert not selector.items() <= labels.items()
    # It cannot be changed in a cluster.
    assert others["selector"] == {
        "matchLabels": {"app.kubernetes.io/name": "vgpu", "app.kubernetes.io/component": "node"}
    }
    found = selects(PODS, "", AGENT_LABELS, "")
    for daemon_set in (others, hygon):
        metadata = {"name": "a", "labels": daemon_set["template"]["metadata"]["labels"]}
        assert found(Stored(PODS, "", "a", 1, {"metadata": metadata}, b""))


def test_simulated_cards_are_in_the_overlay_of_that_name_only() -> None:
    for overlay, expected in (("default", False), ("kubernetes-1.31", False), ("simulated", True)):
        assert ("/var/lib/vgpu-sim" in str(rendered(overlay).pods())) is expected


def test_what_the_runtime_mounts_has_one_path_for_host_and_agent(each: Installation) -> None:
    pod = each.pods()["vgpu-node"]
    hosts = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    mounts = {
        m["name"]: m["mountPath"] for c in pod["containers"] for m in c["volumeMounts"] if m["name"] in hosts
    }
    assert (mounts.pop("cgroup"), mounts.pop("proc")) == ("/host/cgroup", "/host/proc")
    del hosts["cgroup"], hosts["proc"]
    assert mounts == hosts


def test_the_agent_ends_before_kubernetes_ends_it(each: Installation) -> None:
    assert each.pods()["vgpu-node"]["terminationGracePeriodSeconds"] > 2 * NodeSettings().drain_seconds


def test_every_image_of_ours_is_the_one_that_is_built(each: Installation) -> None:
    images = {container["image"] for container in each.containers()}
    ours = {image for image in images if not image.startswith("registry.k8s.io/kube-scheduler:")}
    simulated = any(volume["name"] == "simulated" for volume in each.pods()["vgpu-node"]["volumes"])
    assert ours == {f"{NAME}:{TAG}"} | ({f"{SIMULATED}:{TAG}"} if simulated else set())


def test_the_cluster_service_runs_where_there_is_an_image_for_it(each: Installation) -> None:
    selector = each.pods()["vgpu-cluster"]["nodeSelector"]
    assert selector == {"kubernetes.io/os": "linux", "kubernetes.io/arch": ARCHITECTURE}


def test_two_agents_never_share_a_node(each: Installation) -> None:
    for agents in NODE_AGENTS:
        strategy = each.one("DaemonSet", agents)["spec"]["updateStrategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def test_a_drain_proceeds_and_leaves_a_replica(each: Installation) -> None:
    budget = each.one("PodDisruptionBudget", "vgpu-cluster")["spec"]
    deployment = each.one("Deployment", "vgpu-cluster")["spec"]
    assert 0 < budget["maxUnavailable"] < deployment["replicas"]
    assert budget["selector"] == deployment["selector"]
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_the_services_read_their_settings_from_the_parameters_of_admission(each: Installation) -> None:
    parameters = written()
    cluster = load(ClusterSettings, {}, each.environment("vgpu-cluster", "allocator"))
    assert cluster.prefixes == parameters["prefixes"].split(",") == list(DEFAULT_PREFIXES)
    assert cluster.scheduler_name == parameters["schedulerName"] == ClusterSettings().scheduler_name
    node = load(NodeSettings, {}, each.environment("vgpu-node", "agent"))
    assert node.prefixes == NodeSettings().prefixes
    assert set(node.prefixes.values()) <= set(cluster.prefixes)
    assert (node.cgroup_root, node.proc_root) == ("/host/cgroup", "/host/proc")
