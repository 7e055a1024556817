"""The settings of all services, each with its type, its description and its default."""

from dataclasses import asdict
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from device_plugin.core import pages
from device_plugin.core.app_types import COUNT, DEFAULT_WEIGHTS, SHARE, TYPES, Scoring, Weights
from device_plugin.core.enforcement import Enforcement
from device_plugin.core.errors import VgpuError
from device_plugin.core.jobs.rules import COOLDOWN_S, MAX_MIN_RUNTIME_S, STRANDED_S, YOUNG_S
from device_plugin.core.requests import DEFAULT_PREFIXES


class SettingsError(VgpuError):
    """A setting is unknown, malformed or missing; the text says which, and where it came from.

    Cure: correct the setting as the page "Settings" of the documentation describes, and restart the service.
    """


class KubeSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The API server's address and the credentials for it. If all are empty, the pod's service account is used."""

    server: Annotated[str, Meta(description="URL of the API server")] = ""
    token_file: Annotated[str, Meta(description="file that holds a bearer token")] = ""
    ca_file: Annotated[
        str, Meta(description="file of the authority that signed the server's certificate")
    ] = ""
    kubeconfig: Annotated[
        str, Meta(description="kubeconfig file that has server, token and certificates")
    ] = ""


class NodeSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu node`."""

    node_name: Annotated[str, Meta(description="name of this node, as Kubernetes knows it")] = ""
    root: Annotated[str, Meta(description="folder that holds the host's sys/ and dev/")] = "/"
    kubelet_dir: Annotated[
        str, Meta(description="folder where the agent sees the kubelet's device-plugins and pod-resources")
    ] = "/var/lib/kubelet"
    cdi_dir: Annotated[str, Meta(description="folder where the runtime reads CDI specs")] = "/var/run/cdi"
    state_dir: Annotated[str, Meta(description="folder for the files of slices and for records")] = (
        "/var/lib/vgpu"
    )
    cgroup_root: Annotated[str, Meta(description="where the host's cgroup tree is mounted")] = (
        "/sys/fs/cgroup"
    )
    proc_root: Annotated[str, Meta(description="where the host's /proc is mounted")] = "/proc"
    prefixes: Annotated[
        dict[str, str],
        Meta(
            description="resource prefix of the cards of each PCI vendor id",
            examples=[{"1d94": "hygon.com/dcu"}],
        ),
    ] = msgspec.field(default_factory=lambda: {"1d94": "hygon.com/dcu"})
    mounts: Annotated[
        dict[str, list[str]],
        Meta(
            description="paths of the node that all containers with cards of a PCI vendor id get, read-only, at the"
            " same path or, written NODE:CONTAINER, at another one; of devices only /dev/dri/cardN, the granted card's"
            f" own; {pages.INSTALL} says what is refused (a kubelet's folder other than /var/lib/kubelet is not)",
            examples=[{"1d94": ["/opt/hyhal", "/opt/dtk:/opt/hygondriver", "/dev/dri/cardN"]}],
        ),
    ] = {}
    mem_unit_mib: Annotated[int, Meta(description="MiB of one memory unit", ge=1)] = msgspec.field(
        default=1024, name="memUnitMiB"
    )
    exclude_cards: Annotated[
        list[str],
        Meta(description="uuids or PCI addresses of cards to leave alone", examples=[["0000:03:00.0"]]),
    ] = []
    enforcement: Annotated[
        dict[str, Enforcement],
        Meta(
            description="observe, enforce or kill, for each PCI vendor id: what happens to a container that bypasses"
            " the library; observe if not named",
            examples=[{"1002": "kill"}],
        ),
    ] = msgspec.field(default_factory=dict)
    nodes_file: Annotated[
        str,
        Meta(
            description=f"file with excludeCards and enforcement of some nodes, by their labels ({pages.INSTALL})"
        ),
    ] = ""
    unaccounted_mib: Annotated[
        int,
        Meta(
            description="MiB in use on a card that no slice accounts for, beyond which an event says so", ge=0
        ),
    ] = msgspec.field(default=64, name="unaccountedMiB")
    render_work: Annotated[
        bool,
        Meta(
            description="true: work and memory of programs through render nodes are found; needs the component"
            " render-work"
        ),
    ] = False
    claims: Annotated[
        bool,
        Meta(
            description="true: slices are also given by ResourceClaims, on Kubernetes 1.36 and newer; needs the"
            " component dra"
        ),
    ] = False
    library: Annotated[str, Meta(description="path of libvgpu.so; empty: the one built here")] = ""
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9400"
    drain_seconds: Annotated[float, Meta(description="seconds to go on serving after SIGTERM", ge=0)] = 5.0
    kube: KubeSettings = KubeSettings()


class NodeScoreSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The placement policy `node-score`: weights by application type, and where the loads of cards come from."""

    gpu: Annotated[
        dict[str, float],
        Meta(description="weights of app-type gpu", examples=[asdict(DEFAULT_WEIGHTS["gpu"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["gpu"]))
    cpu: Annotated[
        dict[str, float],
        Meta(description="weights of app-type cpu", examples=[asdict(DEFAULT_WEIGHTS["cpu"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["cpu"]))
    memory: Annotated[
        dict[str, float],
        Meta(description="weights of app-type memory", examples=[asdict(DEFAULT_WEIGHTS["memory"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["memory"]))
    free: Annotated[
        str,
        Meta(description="share or count: add up the free shares of a node, or its free cards, CPUs and GiB"),
    ] = SHARE
    most_memory: Annotated[
        float,
        Meta(
            description="a card with a greater share of its memory granted or in use is not free", gt=0, le=1
        ),
    ] = 0.9
    most_load: Annotated[
        float,
        Meta(
            description="a card with a greater share of its core groups granted, or of its time busy, is not free",
            gt=0,
            le=1,
        ),
    ] = 0.9
    agent_namespace: Annotated[str, Meta(description="namespace of the node agents")] = "vgpu-system"
    ask_seconds: Annotated[
        float, Meta(description="seconds between two requests to an agent for the loads of its cards", gt=0)
    ] = 15.0
    asks_per_second: Annotated[
        float, Meta(description="most requests to all agents together in a second", gt=0)
    ] = 50.0
    stale_seconds: Annotated[
        float,
        Meta(
            description="seconds after which a measured load is not used any more: then only grants count",
            gt=0,
        ),
    ] = 60.0

    def scoring(self) -> Scoring:
        """Returns these settings as a `Scoring`. Raises TypeError for weights that settings_checks refuses."""
        weights = {name: Weights(**getattr(self, name)) for name in TYPES}
        return Scoring(weights, self.most_memory, self.most_load, self.free == COUNT)


class ClusterSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu cluster`. The replica leads while a process in the pod `pod_name` holds the Lease."""

    pod_name: Annotated[
        str, Meta(description="name of this pod: the scheduler beside it holds the Lease")
    ] = ""
    prefixes: Annotated[
        list[str], Meta(description="resource prefixes of all card families", examples=[["hygon.com/dcu"]])
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_PREFIXES))
    scheduler_name: Annotated[str, Meta(description="schedulerName of the pods to place")] = "vgpu-scheduler"
    lease_namespace: Annotated[str, Meta(description="namespace of the scheduler's Lease")] = "vgpu-system"
    lease_name: Annotated[str, Meta(description="name of the scheduler's Lease")] = "vgpu-scheduler"
    extender_listen: Annotated[str, Meta(description="loopback address of /filter, /bind, /explain")] = (
        "127.0.0.1:9401"
    )
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9402"
    reservation_seconds: Annotated[
        float, Meta(description="a reservation ends after this many seconds without a Binding", gt=0)
    ] = 60.0
    covered_pods: Annotated[
        Literal["report", "delete"],
        Meta(
            description="report or delete: what to do with a pod in which a mount hides the files that limit it"
        ),
    ] = "report"
    claims: Annotated[
        bool,
        Meta(
            description="true: pods may ask by ResourceClaims too, on Kubernetes 1.36 and newer; needs the"
            " component dra"
        ),
    ] = False
    mem_unit_mib: Annotated[
        int, Meta(description="MiB of one memory unit, to which the memory of a claim is rounded up", ge=1)
    ] = msgspec.field(default=1024, name="memUnitMiB")
    node_score: NodeScoreSettings = msgspec.field(default_factory=NodeScoreSettings)
    kube: KubeSettings = KubeSettings()


class JobsSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu job-engine`.

    One replica plans all pools (parts of the cards), or each replica plans the pools whose Leases it holds.
    """

    pod_name: Annotated[str, Meta(description="name of this pod, by which it holds the Lease")] = ""
    prefixes: Annotated[
        list[str], Meta(description="resource prefixes of all card families", examples=[["hygon.com/dcu"]])
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_PREFIXES))
    lease_namespace: Annotated[str, Meta(description="namespace of the job engine's Lease")] = "vgpu-system"
    lease_name: Annotated[
        str,
        Meta(description="name of the job engine's Lease; the Leases of pools have this name and a number"),
    ] = "vgpu-jobs"
    agent_namespace: Annotated[str, Meta(description="namespace of the node agents")] = "vgpu-system"
    use: Annotated[
        float,
        Meta(description="share of the cards that jobs may use; the rest is left to other pods", gt=0, le=1),
    ] = 1.0
    cooldown_seconds: Annotated[
        float,
        Meta(
            description="seconds after a change of its width in which a job does not grow, and in which others give way"
            " neither to a job that was stopped nor to a split that started or was resized",
            ge=0,
        ),
    ] = COOLDOWN_S
    quantum_seconds: Annotated[
        float,
        Meta(
            description="seconds that a job runs before it may be stopped for another one of its priority; half as many"
            " for one that has waited for too long",
            ge=0,
        ),
    ] = 3600.0
    resumable: Annotated[
        bool,
        Meta(
            description="true: jobs without vgpu.io/resumable may be stopped for others of their priority; for sites"
            " where every program goes on from its checkpoints"
        ),
    ] = False
    resumable_queues: Annotated[
        list[str],
        Meta(
            description="queues whose jobs without vgpu.io/resumable may be stopped for others of their priority",
            examples=[["nightly"]],
        ),
    ] = msgspec.field(default_factory=list)
    min_runtime_seconds: Annotated[
        float,
        Meta(
            description="seconds after each start in which a job without vgpu.io/min-runtime gives nothing to others of"
            " its priority",
            ge=0,
            le=MAX_MIN_RUNTIME_S,
        ),
    ] = 0.0
    young_seconds: Annotated[
        float,
        Meta(
            description="seconds after its start in which a job is not made narrower for another one of its priority",
            ge=0,
        ),
    ] = YOUNG_S
    stranded_seconds: Annotated[
        float,
        Meta(
            description="seconds that a pod may wait for a node, or take to end beyond its grace period, before its job"
            " goes on without it or stops, as after the death of a node",
            ge=0,
        ),
    ] = STRANDED_S
    split_ratio: Annotated[
        float,
        Meta(
            description="a split begins once there is room for more sub-tasks at a time than their number divided by"
            " this, at least 1, or when it has waited for too long; 0 begins with one sub-task",
            ge=0,
        ),
    ] = 0.0
    queue_weights: Annotated[
        dict[str, float],
        Meta(description="weights of queues, 1 for each that is not named", examples=[{"research": 2}]),
    ] = msgspec.field(default_factory=dict)
    rates: Annotated[
        list[str],
        Meta(
            description="samples a second that a model trains on one card, or on 1 and 8, by names of model and card",
            examples=[["resnet50 Z100 390", "bert Z100 1:52 8:390"]],
        ),
    ] = msgspec.field(default_factory=list)
    explain_listen: Annotated[str, Meta(description="loopback address of /explain")] = "127.0.0.1:9404"
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9403"
    kube: KubeSettings = KubeSettings()


class UiSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu ui-server`, the page for a team. People log in with tokens, or a proxy logs them in."""

    prefixes: Annotated[
        list[str], Meta(description="resource prefixes of all card families", examples=[["hygon.com/dcu"]])
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_PREFIXES))
    scheduler_name: Annotated[str, Meta(description="schedulerName of the pods that wait for cards")] = (
        "vgpu-scheduler"
    )
    mem_unit_mib: Annotated[
        int, Meta(description="MiB of one memory unit, to which the memory of a claim is rounded up", ge=1)
    ] = msgspec.field(default=1024, name="memUnitMiB")
    listen: Annotated[str, Meta(description="address of the page")] = "0.0.0.0:9406"
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9405"
    tls_cert_file: Annotated[
        str,
        Meta(
            description="file of the page's certificate; empty: plain HTTP, for an ingress with TLS in front"
        ),
    ] = ""
    tls_key_file: Annotated[str, Meta(description="file of its key")] = ""
    public_url: Annotated[
        str,
        Meta(
            description="address that browsers have, such as https://vgpu.example.com; needed where a proxy in front of"
            " the page adds TLS; then no other address is answered"
        ),
    ] = ""
    audiences: Annotated[
        list[str],
        Meta(
            description="audiences of which a token must have one; empty: those of the API server",
            examples=[["vgpu-ui"]],
        ),
    ] = msgspec.field(default_factory=list)
    session_seconds: Annotated[float, Meta(description="seconds after a login until the next one", gt=0)] = (
        43200.0
    )
    idle_seconds: Annotated[
        float, Meta(description="seconds without an open page after which a session ends", gt=0)
    ] = 3600.0
    proxy_user_header: Annotated[
        str,
        Meta(
            description="header in which an authenticating proxy names the user, such as X-Forwarded-User; empty:"
            " people log in with tokens"
        ),
    ] = ""
    proxy_groups_header: Annotated[
        str, Meta(description="header in which that proxy names the user's groups, with commas between them")
    ] = ""
    proxy_secret_file: Annotated[
        str,
        Meta(description="file with the secret that the proxy sends in the header X-Vgpu-Proxy-Secret"),
    ] = ""
    allow_changes: Annotated[
        bool,
        Meta(
            description="true: people cordon cards, and stop, resume, admit and delete Jobs on the page, each with the"
            " own token; not behind a proxy, which has no tokens"
        ),
    ] = False
    agent_namespace: Annotated[
        str,
        Meta(description="namespace of the node agents and of the job engine, whose metrics the page reads"),
    ] = "vgpu-system"
    prometheus: Annotated[
        str,
        Meta(
            description="URL of a Prometheus that scrapes the node agents, for use over time, and in place of the"
            " agents; needed for more than 200 nodes with slices; empty: none"
        ),
    ] = ""
    kube: KubeSettings = KubeSettings()


Settings = TypeVar("Settings", NodeSettings, ClusterSettings, JobsSettings, UiSettings)
KINDS: tuple[type[msgspec.Struct], ...] = (NodeSettings, ClusterSettings, JobsSettings, UiSettings)
