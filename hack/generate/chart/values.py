"""The values of the chart: for each value its place in the objects, its default and its schema."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from device_plugin.wiring.settings import ClusterSettings, JobsSettings, NodeSettings, UiSettings
from hack.generate.chart import schemas
from hack.generate.chart.schemas import FILLED, NUMBER, SWITCH, TEXT, WORDS, Schema
from hack.generate.monitoring.alerts import RUNBOOK

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """One value: its key in values.yaml, with dots, and its meaning, schema and default."""

    key: str
    text: str
    schema: Schema
    default: object


@dataclass(frozen=True)
class ReplacedPart:
    """A part of an object that a value replaces completely; `path` is written as in a kustomize replacement."""

    key: str
    text: str
    schema: Schema
    kind: str
    name: str
    path: str


AGENT = "spec.template.spec.containers.[name=agent]"
ALLOCATOR = "spec.template.spec.containers.[name=allocator]"
SCHEDULER = "spec.template.spec.containers.[name=scheduler]"
ENGINE = "spec.template.spec.containers.[name=engine]"
PAGE = "spec.template.spec.containers.[name=page]"


def _of_service(key: str, kind: str, name: str, container: str, program: str) -> Iterator[ReplacedPart]:
    """Yield the parts that every service has; `program` is the subject of the text about resources."""
    yield ReplacedPart(
        f"{key}.nodeSelector",
        "Labels of the nodes that its pods run on.",
        schemas.LABELS,
        kind,
        name,
        "spec.template.spec.nodeSelector",
    )
    yield ReplacedPart(
        f"{key}.tolerations",
        "Taints of nodes that its pods run on all the same.",
        schemas.TOLERATIONS,
        kind,
        name,
        "spec.template.spec.tolerations",
    )
    yield ReplacedPart(
        f"{key}.resources", f"What {program} asks for, and its limits.", schemas.RESOURCES,
        kind, name, f"{container}.resources",
    )  # fmt: skip
    yield ReplacedPart(
        f"{key}.priorityClassName", "The priority class of its pods.", schemas.PRIORITY_CLASS,
        kind, name, "spec.template.spec.priorityClassName",
    )  # fmt: skip
    yield ReplacedPart(
        f"{key}.podAnnotations", "Annotations of its pods.", schemas.LABELS,
        kind, name, "spec.template.metadata.annotations",
    )  # fmt: skip


def _affinity(key: str, name: str) -> ReplacedPart:
    text = (
        "Affinity of its pods. Helm merges what you write with the default; null in place of a part of the default"
        " takes that part away."
    )
    return ReplacedPart(
        f"{key}.affinity", text, schemas.AFFINITY, "Deployment", name, "spec.template.spec.affinity"
    )


PARTS = (
    *_of_service("node", "DaemonSet", "vgpu-node", AGENT, "the agent"),
    ReplacedPart(
        "cluster.replicas", "Replicas, of which one leads.", NUMBER, "Deployment", "vgpu-cluster", "spec.replicas"
    ),
    *_of_service("cluster", "Deployment", "vgpu-cluster", ALLOCATOR, "the allocator"),
    _affinity("cluster", "vgpu-cluster"),
    ReplacedPart(
        "scheduler.resources", "What kube-scheduler asks for, and its limits.", schemas.RESOURCES,
        "Deployment", "vgpu-cluster", f"{SCHEDULER}.resources",
    ),
    ReplacedPart("jobs.replicas", "Replicas, of which one plans.", NUMBER, "Deployment", "vgpu-jobs", "spec.replicas"),
    *_of_service("jobs", "Deployment", "vgpu-jobs", ENGINE, "the job engine"),
    _affinity("jobs", "vgpu-jobs"),
    *_of_service("ui", "Deployment", "vgpu-ui", PAGE, "the page"),
    _affinity("ui", "vgpu-ui"),
    ReplacedPart(
        "ui.allowChanges",
        "Buttons that cordon cards, and stop, resume, admit and delete Jobs, each change with the person's own token;"
        " false: the commands for it, to copy.",
        SWITCH,
        "Deployment", "vgpu-ui", f"{PAGE}.env.[name=VGPU_ALLOW_CHANGES].value",
    ),
    ReplacedPart(
        "networkPolicy.from",
        "Peers that may read the metrics, beside the pods of vgpu. For `vgpu top` and `kubectl get --raw …/proxy/…` add"
        " the addresses from which the API server calls pods: {ipBlock: {cidr: 10.0.0.0/28}}.",
        schemas.PEERS,
        "NetworkPolicy", "vgpu", "spec.ingress.[1].from",
    ),
)  # fmt: skip

# Labels that a service's pods have beside ours: by value, the workload.
POD_LABELS = {
    "node.podLabels": ("DaemonSet", "vgpu-node"),
    "cluster.podLabels": ("Deployment", "vgpu-cluster"),
    "jobs.podLabels": ("Deployment", "vgpu-jobs"),
    "ui.podLabels": ("Deployment", "vgpu-ui"),
}
# Settings of a service as environment variables: by value, the container and an example.
ENVIRONMENTS = {
    "node.env": ("DaemonSet", "vgpu-node", AGENT, "{VGPU_DRAIN_SECONDS: 10}"),
    "cluster.env": ("Deployment", "vgpu-cluster", ALLOCATOR, "{VGPU_COVERED_PODS: delete}"),
    "jobs.env": ("Deployment", "vgpu-jobs", ENGINE, "{VGPU_COOLDOWN_SECONDS: 60}"),
    "ui.env": ("Deployment", "vgpu-ui", PAGE, "{VGPU_PUBLIC_URL: 'https://vgpu.example.com'}"),
}
_SETTINGS: Mapping[str, type[msgspec.Struct]] = {
    "node.env": NodeSettings,
    "cluster.env": ClusterSettings,
    "jobs.env": JobsSettings,
    "ui.env": UiSettings,
}
# Components of manifests/: the value that adds each component, and its meaning. The values are switches, except LISTS.
# The component amd is not here, because it only changes parameters.
LISTS = {"node-settings": "nodes"}
COMPONENTS = {
    "jobs": ("jobs.enabled", "The job engine: Jobs that wait in queues, shrink and grow."),
    "dra": (
        "dra.enabled",
        "Slices by ResourceClaims, beside those by limits; needs Kubernetes 1.36 or newer. Each family of"
        " parameters.prefixes gets a DeviceClass: dcu.vgpu.io for hygon.com/dcu.",
    ),
    "ui": (
        "ui.enabled",
        "The page for a team: people log in, and each sees what the cluster lets that person list (docs/ui-team.md).",
    ),
    "monitoring": (
        "monitoring",
        "A PodMonitor and alerts for Prometheus' operator, which must be there, and boards for Grafana.",
    ),
    "network-policy": ("networkPolicy.enabled", "A NetworkPolicy: only named peers read the metrics."),
    "kernel-limits": ("kernelLimits", "The right to write cgroups, for enforcement: enforce or kill."),
    "render-work": (
        "renderWork",
        "Programs that have a part of a card work through its render node are found; needs SYS_PTRACE.",
    ),
    "node-settings": (
        "nodes",
        "Settings of some nodes only, such as {labels: {pool: display}, excludeCards: [GPU-1]}; also enforcement.",
    ),
    "similar-names": (
        "similarNames",
        "Resource names that differ from ours only in form, such as hygon.com/dcumem, are let in, because another"
        " device plugin serves them.",
    ),
    "node-feature-rule": (
        "nodeFeatureRule",
        "A NodeFeatureRule for node-feature-discovery, which must be there: nodes with cards of parameters.vendors get"
        " the label vgpu.io/node=true, and those with Hygon's cards vgpu.io/maker=hygon too.",
    ),
    "simulated-cards": (
        "simulatedCards.enabled",
        "Simulated cards on every labelled node, for trying without hardware.",
    ),
}


# Values that have an effect only with a component; by value, the switch of the component.
PARTS_OF_COMPONENTS = {"monitoringLabels": "monitoring"}


@dataclass(frozen=True)
class Parameter:
    """A parameter that is a text in admission/parameters.yaml, but a list, number or boolean in the chart.

    `read` converts the text to the chart's value, `expression` converts the value to the text in a template.
    """

    text: str
    schema: Schema
    read: Callable[[str], object]
    expression: str


def _vendors(text: str) -> dict[str, str]:
    entries = (entry.split(":") for entry in text.split(","))
    return {vendor.strip(' "'): prefix.strip() for vendor, prefix in entries}


PARAMETERS = {
    "prefixes": Parameter(
        "Card families: each stands for the resources PREFIX (whole cards) and PREFIX-… (a slice). Leave out what"
        " another device plugin serves in this cluster.",
        schemas.PREFIXES, lambda text: text.split(","), 'include "vgpu.prefixes" .',
    ),
    "vendors": Parameter(
        "The prefix under which the agents offer a vendor's cards, by its PCI vendor id.",
        schemas.VENDORS, _vendors, 'include "vgpu.vendors" .',
    ),
    "runtimeClasses": Parameter(
        "The runtime classes that a pod with a slice may name. One that takes cards by environment must not be here.",
        WORDS, lambda text: text.split(",") if text else [], 'join "," .Values.parameters.runtimeClasses',
    ),
    "systemNamespaces": Parameter(
        "The namespaces in which pods with a slice may have a priority class system-*.",
        WORDS, lambda text: text.split(","), 'join "," .Values.parameters.systemNamespaces',
    ),
    "seccompDefault": Parameter(
        "True where all kubelets run with --seccomp-default; only Kubernetes 1.31 to 1.35 ask for it.",
        SWITCH, lambda text: text == "true", ".Values.parameters.seccompDefault",
    ),
    "controllers": Parameter(
        "The controllers, by user or group, at first those of Kubernetes itself: in namespaces with"
        " vgpu.io/queue-required only they create pods that ask for a card, and beside the queue only they give a"
        " running Job more pods.",
        WORDS, lambda text: text.split(","), 'join "," .Values.parameters.controllers',
    ),
    "queues": Parameter(
        "The queues that Jobs may name in namespaces without the annotation vgpu.io/queues; empty: every name is one.",
        WORDS, lambda text: text.split(",") if text else [], 'join "," .Values.parameters.queues',
    ),
    "memUnitMiB": Parameter(
        "MiB of one unit of PREFIX-mem; change it while no slice runs.",
        NUMBER, int, ".Values.parameters.memUnitMiB | int64",
    ),
    "mostGraceSeconds": Parameter(
        "The longest grace period, in seconds, that a pod with a slice may have, and may be deleted or evicted with.",
        NUMBER, int, ".Values.parameters.mostGraceSeconds | int64",
    ),
    "leastIdleMinutes": Parameter(
        "The shortest idle limit (annotation vgpu.io/idle-limit), in minutes, that a pod or a namespace may have.",
        NUMBER, int, ".Values.parameters.leastIdleMinutes | int64",
    ),
}  # fmt: skip
# The schemas of parameters that are a text in the chart too.
TEXTS = {"mostMemGiB": schemas.BOUND, "maxSlices": schemas.BOUND, "kubeletRootDir": schemas.FOLDER}


def expression(parameter: str) -> str:
    """The Helm expression for the text of a parameter."""
    typed = PARAMETERS.get(parameter)
    return f"{{{{ {typed.expression if typed else f'.Values.parameters.{parameter}'} }}}}"


@dataclass(frozen=True)
class Defaults:
    """The defaults of values, as found in manifests/.

    `parameters` has each parameter's text and description, `parts` the defaults of PARTS by key, `images` the images by
    name, and `cards` the simulated cards.
    """

    parameters: Mapping[str, tuple[str, str]]
    parts: Mapping[str, object]
    images: Mapping[str, str]
    cards: object


def values(defaults: Defaults) -> Sequence[Value]:
    """All values; the values of a group are adjacent."""
    found = [*_images(defaults.images), *_parameters(defaults.parameters)]
    off = False
    found += [
        Value("amd", "AMD's cards as amd.com/gpu; not beside AMD's own device plugin.", SWITCH, off),
        Value(
            "testPrefix",
            "The card family of which `helm test` asks for a slice; empty: amd.com/gpu with `amd`, otherwise the first"
            " of parameters.prefixes.",
            schemas.OPTIONAL_PREFIX,
            "",
        ),
        Value(
            "runbookUrl",
            "The annotation runbook_url of an alert, with the name of its page in place of NAME; for a site that"
            " `make site` has built: https://docs.example.com/alerts/NAME.html. Empty: alerts have no such link, and"
            " name the page in the annotation runbook.",
            schemas.RUNBOOK,
            RUNBOOK,
        ),
    ]
    found += [
        Value(
            "monitoringLabels",
            "Labels of the PodMonitor and the PrometheusRule. kube-prometheus-stack selects them by the name of its"
            " Helm release: {release: prometheus}.",
            {**schemas.LABELS, "examples": [{"release": "prometheus"}]},
            {},
        ),
    ]
    found += [
        Value(key, text, schemas.NODES, []) if name in LISTS else Value(key, text, SWITCH, off)
        for name, (key, text) in COMPONENTS.items()
    ]
    found += _pods(defaults.parts)
    repository = defaults.images["simulated"].partition(":")[0]
    found += [
        Value("simulatedCards.repository", "The image with simulated cards.", FILLED, repository),
        Value(
            "simulatedCards.cards",
            "The cards of every node: presets and counts.",
            schemas.CARDS,
            defaults.cards,
        ),
    ]
    groups = list(dict.fromkeys(value.key.partition(".")[0] for value in found))
    return sorted(found, key=lambda value: groups.index(value.key.partition(".")[0]))


def _pods(parts: Mapping[str, object]) -> Iterator[Value]:
    """Yield the values of the services' pods; `parts` are the defaults of PARTS."""
    for part in PARTS:
        empty: object = {"array": [], "string": ""}.get(str(part.schema["type"]), {})
        default = parts.get(part.key) or empty
        # In a variable of the environment, it is a text.
        yield Value(part.key, part.text, part.schema, default == "true" if part.schema == SWITCH else default)
    for key in POD_LABELS:
        yield Value(key, "Labels of its pods, beside ours.", schemas.LABELS, {})
    yield Value(
        "node.affinity",
        "Affinity of its pods. The chart adds the label vgpu.io/maker, by which the two DaemonSets share the nodes, to"
        " each term of a required nodeAffinity.",
        schemas.AFFINITY,
        {},
    )
    for key, (_, _, _, example) in ENVIRONMENTS.items():
        text = f"Its settings (docs/reference/settings.md), such as {example}."
        yield Value(key, text, schemas.environment(_SETTINGS[key]), {})


def _images(images: Mapping[str, str]) -> Iterator[Value]:
    yield Value(
        "global.imageRegistry",
        "The registry of every image, kube-scheduler's too, perhaps with a path: mirror.example.com/library. It takes"
        " the place of the registry in image.repository, scheduler.repository and simulatedCards.repository: the part"
        " before the first slash, if that has a dot or a colon or is localhost; a repository without a registry is"
        " put behind it. Empty: the repositories as they are.",
        schemas.REGISTRY,
        "",
    )
    repository, _, tag = images["vgpu"].partition(":")
    policies = {"enum": ["Always", "IfNotPresent", "Never"]}
    yield Value("image.repository", "The image of all services, in a registry of yours.", FILLED, repository)
    yield Value("image.tag", "Its tag.", FILLED, tag)
    yield Value("image.pullPolicy", "When the kubelet fetches it.", policies, "IfNotPresent")
    yield Value(
        "imagePullSecrets",
        "Names of Secrets in the release's namespace with the registry's password.",
        WORDS,
        [],
    )
    yield Value(
        "kubernetes131",
        "True for Kubernetes 1.31 to 1.35, which have no MutatingAdmissionPolicy; auto: by the API server's version.",
        {"enum": [True, False, "auto"]},
        "auto",
    )
    repository = images["scheduler"].partition(":")[0]
    yield Value("scheduler.repository", "The image of kube-scheduler.", FILLED, repository)
    yield Value(
        "scheduler.tag",
        "Its tag, not newer than your API server; empty: that of manifests/, for Kubernetes 1.36 or for 1.31.",
        TEXT,
        "",
    )


def _parameters(parameters: Mapping[str, tuple[str, str]]) -> Iterator[Value]:
    for name, (default, comment) in parameters.items():
        typed = PARAMETERS.get(name)
        if typed:
            yield Value(f"parameters.{name}", typed.text, typed.schema, typed.read(default))
        else:
            yield Value(f"parameters.{name}", comment, TEXTS.get(name, FILLED), default)
