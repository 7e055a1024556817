"""The control plane: etcd, API server, controller manager, and the scheduler of ordinary pods."""

from pathlib import Path

from hack.testbed.certificates import Authority
from hack.testbed.layout import API_SERVER, GATEWAY, KUBERNETES_SERVICE, SERVICE_NETWORK, Layout
from hack.testbed.supervisor import Program

# Records only requests of our services: tests count their writes, and compare their verbs with RBAC.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:vgpu-system"]
- level: None
"""
# A silent node counts as lost after seconds, not minutes, because tests kill nodes.
GRACE_SECONDS = 12
TOLERATION_SECONDS = 5
# The user as which the API server forwards requests to added API servers (APIService).
PROXY = "front-proxy"


def prepare(layout: Layout, authority: Authority) -> None:
    """Issue the certificates of the control plane and of the administrator, and write their kubeconfigs."""
    folder = layout.machine("control-plane")
    hosts = ["localhost", "kubernetes", "kubernetes.default.svc", "127.0.0.1", GATEWAY, KUBERNETES_SERVICE]
    authority.issue("kube-apiserver", "kube-apiserver", hosts=hosts)
    authority.issue("admin", "admin", "system:masters")
    authority.issue(PROXY, PROXY)
    authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.issue("kube-controller-manager", "system:kube-controller-manager")
    authority.issue("kube-scheduler", "system:kube-scheduler")
    authority.kubeconfig("admin", API_SERVER, layout.kubeconfig)
    for name in ("kube-controller-manager", "kube-scheduler"):
        authority.kubeconfig(name, API_SERVER, folder / f"{name}.kubeconfig")
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY, encoding="utf-8")


def programs(layout: Layout, authority: Authority) -> list[Program]:
    """The programs of the control plane, in the order in which they start."""
    folder = layout.machine("control-plane")
    etcd = ["etcd", "--data-dir=etcd", "--unsafe-no-fsync", "--logger=zap", "--log-level=warn"]
    return [
        Program("etcd", etcd),
        Program("kube-apiserver", _api_server(layout, authority, folder)),
        Program("kube-controller-manager", _controller_manager(authority, folder)),
        Program("kube-scheduler", _client("kube-scheduler", folder)),
    ]


def _api_server(layout: Layout, authority: Authority, folder: Path) -> list[str]:
    return [
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={GATEWAY}",
        f"--tls-cert-file={authority.file('kube-apiserver', 'crt')}",
        f"--tls-private-key-file={authority.file('kube-apiserver', 'key')}",
        f"--client-ca-file={authority.certificate}",
        f"--kubelet-certificate-authority={authority.certificate}",
        f"--kubelet-client-certificate={authority.file('kubelet-client', 'crt')}",
        f"--kubelet-client-key={authority.file('kubelet-client', 'key')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={authority.file('tokens', 'pub')}",
        f"--service-account-signing-key-file={authority.file('tokens', 'key')}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        # The API server can reach pods but no Service, because it has no kube-proxy.
        "--enable-aggregator-routing=true",
        f"--proxy-client-cert-file={authority.file(PROXY, 'crt')}",
        f"--proxy-client-key-file={authority.file(PROXY, 'key')}",
        f"--requestheader-client-ca-file={authority.certificate}",
        f"--requestheader-allowed-names={PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
        f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
        f"--audit-policy-file={folder / 'audit-policy.yaml'}",
        f"--audit-log-path={layout.audit}",
        "--audit-log-mode=batch",
    ]


def _controller_manager(authority: Authority, folder: Path) -> list[str]:
    return [
        *_client("kube-controller-manager", folder),
        f"--service-account-private-key-file={authority.file('tokens', 'key')}",
        f"--root-ca-file={authority.certificate}",
        "--use-service-account-credentials",
        f"--node-monitor-grace-period={GRACE_SECONDS}s",
        "--node-monitor-period=1s",
    ]


def _client(name: str, folder: Path) -> list[str]:
    config = folder / f"{name}.kubeconfig"
    flags = (f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-"))
    return [name, *flags, "--leader-elect=false"]
