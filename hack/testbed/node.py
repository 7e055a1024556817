"""One node: containerd, kube-proxy and kubelet, with settings so that several nodes can run on one machine."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hack.testbed import archives, layout
from hack.testbed.certificates import Authority
from hack.testbed.layout import API_SERVER, Layout
from hack.testbed.programs import CNI
from hack.testbed.supervisor import Program

SOCKET = "/run/containerd/containerd.sock"
CTR = ("ctr", "--address", SOCKET, "--namespace", "k8s.io")


def prepare(
    layout_: Layout, authority: Authority, node: str, imported: Path, gates: Mapping[str, bool]
) -> None:
    """Issue the node's certificates, and write the settings of its programs; `gates` are the kubelet's feature gates.

    Its containerd gets a copy of the folder `imported`, which has the images.
    """
    folder = layout_.machine(node)
    authority.issue(f"kubelet-{node}", f"system:node:{node}", "system:nodes")
    authority.issue(
        f"kubelet-{node}-server", f"system:node:{node}", "system:nodes", [node, layout.address(node)]
    )
    authority.issue(f"kube-proxy-{node}", "system:kube-proxy")
    authority.kubeconfig(f"kubelet-{node}", API_SERVER, folder / "kubelet.kubeconfig")
    authority.kubeconfig(f"kube-proxy-{node}", API_SERVER, folder / "kube-proxy.kubeconfig")
    archives.copy(imported, folder / "containerd")
    (folder / "cni").mkdir()
    (folder / "static-pods").mkdir()
    _write(folder / "cni/10-pods.conflist", _network(node))
    _write(folder / "kubelet.yaml", _kubelet(authority, folder, node) | {"featureGates": dict(gates)})
    (folder / "containerd.toml").write_text(_containerd(folder), encoding="utf-8")


def programs(layout_: Layout, node: str) -> list[Program]:
    """The programs of a node, in the order in which they start."""
    folder = layout_.machine(node)
    return [
        Program("containerd", ["containerd", "--config", "containerd.toml"]),
        Program("kube-proxy", _kube_proxy(folder, node)),
        Program(
            "kubelet",
            [
                "kubelet",
                "--config=kubelet.yaml",
                "--kubeconfig=kubelet.kubeconfig",
                f"--hostname-override={node}",
                f"--node-ip={layout.address(node)}",
            ],
        ),
    ]


def await_containerd() -> None:
    """Wait until the containerd of this node listens."""
    while subprocess.run([*CTR, "version"], capture_output=True, check=False).returncode:
        continue  # each try takes 10 to 100 ms


def _network(node: str) -> dict[str, object]:
    ranges = [[{"subnet": layout.pods(node)}]]
    address = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": address}]}


def _kubelet(authority: Authority, folder: Path, node: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": authority.file(f"kubelet-{node}-server", "crt"),
        "tlsPrivateKeyFile": authority.file(f"kubelet-{node}-server", "key"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "staticPodPath": str(folder / "static-pods"),
        # No DNS server has this address, but without this setting each pod causes a warning.
        "clusterDNS": [layout.DNS_SERVICE],
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Several nodes share one kernel and one disk: no node may change their settings.
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250,
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "2s",
    }


def _containerd(folder: Path) -> str:
    return f"""\
version = 3
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{layout.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
cdi_spec_dirs = ["/var/run/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI}"]
conf_dir = "{folder}/cni"
"""


def _kube_proxy(folder: Path, node: str) -> list[str]:
    # The zeros keep the settings of connection tracking, which belong to the machine and not to a namespace.
    return [
        "kube-proxy",
        f"--kubeconfig={folder / 'kube-proxy.kubeconfig'}",
        f"--hostname-override={node}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={layout.POD_NETWORK}",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
