"""Runs kustomize on manifests/ once per component, with a marker in place of each value."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.documents import documents
from hack.generate.chart.values import COMPONENTS, ENVIRONMENTS, PARTS, POD_LABELS, Defaults, Object
from hack.generate.monitoring.alerts import ALERTS
from hack.testbed import programs
from vgpu_runtime.paths import SOURCES

MANIFESTS = SOURCES.parent / "manifests"
PARAMETERS = "admission/parameters.yaml"
OLDER = "kubernetes-1.31"
# The namespace in manifests/; in the chart it is the release's, which helm makes.
NAMESPACE = "vgpu-system"
IMAGES = {
    "vgpu": "vgpu.io/vgpu",
    "simulated": "vgpu.io/vgpu-simulated",
    "scheduler": "registry.k8s.io/kube-scheduler",
}
# The operator by which a DaemonSet of agents selects nodes by their label vgpu.io/maker.
MAKER = (
    "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.[0]"
    ".matchExpressions.[0].operator"
)
# The kind of object of which each card family has one.
PER_FAMILY = "DeviceClass"
PAGE_NAMES = {alert.name: alert.page_name for alert in ALERTS}
Key = tuple[str, str]


def marker(kind: str, key: str) -> str:
    """The text of a marker for a value; its character § is in no other text of manifests/."""
    return f"§{kind}:{key}§"


@dataclass(frozen=True)
class Variants:
    """The objects that kustomize writes, with markers.

    `base` has the objects of the base; `components` has, by component, the objects of the base with this component;
    `older` has the objects for Kubernetes 1.31 to 1.35. `defaults` has the values that the markers replaced.
    """

    base: Sequence[Object]
    components: Mapping[str, Sequence[Object]]
    older: Sequence[Object]
    defaults: Defaults


def read(manifests: Path = MANIFESTS) -> Variants:
    """Run kustomize for all variants, and return them. Raises CalledProcessError if kustomize fails."""
    with tempfile.TemporaryDirectory() as scratch:
        copied = shutil.copytree(manifests, Path(scratch) / "manifests")
        places = _Places(_mark_parameters(copied / PARAMETERS))
        older, base, *added = (
            [places.marked(found) for found in _kustomize(copied, overlay, components)]
            for overlay, components in (
                (OLDER, ()),
                ("default", ()),
                *(("default", (name,)) for name in COMPONENTS),
            )
        )
    defaults = Defaults(places.parameters, places.parts, places.images, places.cards)
    return Variants(base, dict(zip(COMPONENTS, added, strict=True)), older, defaults)


def key(found: Object) -> Key:
    """The kind and the name of an object, which identify it."""
    return found["kind"], found["metadata"]["name"]


def _described(found: Object) -> Key:
    """The kind and name by which values describe an object: those of the agents are for Hygon's nodes too."""
    kind, name = key(found)
    return kind, name.removesuffix("-hygon")


def _marked(content: Any, text: str, mark: str) -> Any:
    """Returns an object, or a part of it, with a marker in place of each occurrence of a text."""
    match content:
        case str():
            return content.replace(text, mark)
        case list():
            return [_marked(each, text, mark) for each in content]
        case dict():
            return {name: _marked(each, text, mark) for name, each in content.items()}
    return content


def _kustomize(manifests: Path, base: str, components: Sequence[str]) -> list[dict[str, Any]]:
    folder = manifests / "overlays/chart"
    folder.mkdir(exist_ok=True)
    content = {
        "resources": [f"../{base}"],
        "components": [f"../../components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")
    kubectl = shutil.which("kubectl", path=f"{os.environ['PATH']}:{programs.installed().kubernetes}")
    done = subprocess.run(
        [kubectl or "kubectl", "kustomize", folder], stdout=subprocess.PIPE, text=True, check=True
    )
    objects = [_of_values(found) for found in documents(done.stdout)]
    return [found for found in objects if found["kind"] != "Namespace"]


def _of_values(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with markers for the release's namespace and, in a class, for the name of a card family."""
    made: dict[str, Any] = _marked(found, NAMESPACE, marker("release", "Namespace"))
    if found["kind"] == PER_FAMILY:
        made = _marked(made, found["metadata"]["name"], marker("family", "class"))
    return made


def _mark_parameters(file: Path) -> dict[str, tuple[str, str]]:
    """Replace each parameter by its marker; returns the replaced texts, each with the comment above it."""
    found: dict[str, tuple[str, str]] = {}
    lines, comment = [], ""
    inside = False
    for line in file.read_text(encoding="utf-8").splitlines():
        inside = inside or line == "data:"
        entry = re.fullmatch(r"  (\w+): (.*)", line) if inside else None
        if entry:
            found[entry[1]] = str(yaml.safe_load(entry[2])), comment
            lines.append(f'  {entry[1]}: "{marker("parameter", entry[1])}"')
        else:
            lines.append(line)
        words = line.strip()
        comment = f"{comment} {words[1:].strip()}".strip() if inside and words.startswith("#") else ""
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


class _Places:
    """Puts markers in place of values, and keeps the replaced values as defaults."""

    def __init__(self, parameters: Mapping[str, tuple[str, str]]) -> None:
        self.parameters = parameters
        self.parts: dict[str, object] = {}
        self.images: dict[str, str] = {}
        self.cards: object = []

    def marked(self, found: dict[str, Any]) -> Object:
        """Put markers into the object, and return it."""
        self._mark_content(found)
        for part in PARTS:
            if _described(found) == (part.kind, part.name):
                place, last = parent(found, part.path)
                kind = "optional"
                if last in place:
                    self.parts[part.key] = place[last]
                    kind = "value" if isinstance(place[last], str) else "part"
                place[last] = marker(kind, part.key)
        for name, described in POD_LABELS.items():
            if _described(found) == described:
                found["spec"]["template"]["metadata"]["labels"]["podLabels"] = marker("entries", name)
        for name, (kind, workload, path, _) in ENVIRONMENTS.items():
            if _described(found) == (kind, workload):
                place, last = parent(found, f"{path}.env")
                place[last].append(marker("environment", name))
        for container in _containers(found):
            repository, _, tag = container["image"].rpartition(":")
            (name,) = (name for name, known in IMAGES.items() if known == repository)
            self.images[name] = container["image"]
            container["image"] = marker("scheduler", tag) if name == "scheduler" else marker("image", name)
            container["imagePullPolicy"] = marker("value", "image.pullPolicy")
        return found

    def _mark_content(self, found: dict[str, Any]) -> None:
        if found["kind"] in ("PodMonitor", "PrometheusRule"):
            found["metadata"]["labels"] = marker("optional", "monitoringLabels")
        if found["kind"] == "DaemonSet":
            place, last = parent(found, MAKER)
            found["spec"]["template"]["spec"]["affinity"] = marker("maker", place[last])
        if found["kind"] == "NodeFeatureRule":
            place, last = parent(found, "spec.rules.[0].matchFeatures.[0].matchExpressions.vendor.value")
            place[last] = marker("included", "vgpu.vendorIds")
        if found["kind"] == "ServiceAccount":
            found["imagePullSecrets"] = marker("secrets", "imagePullSecrets")
        if key(found) == ("ConfigMap", "vgpu-simulated-cards"):
            self.cards = yaml.safe_load(found["data"]["cards.yaml"])["cards"]
            found["data"]["cards.yaml"] = marker("listed", "simulatedCards.cards")
        if key(found) == ("ConfigMap", "vgpu-boards"):
            found["data"] = marker("files", "boards")
        if key(found) == ("ConfigMap", "vgpu-nodes"):
            found["data"]["nodes.yaml"] = marker("listed", "nodes")
        if found["kind"] == "PrometheusRule":
            for rule in (
                rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule
            ):
                rule["annotations"]["runbook_url"] = marker("runbook", PAGE_NAMES[rule["alert"]])


def _containers(found: Object) -> Iterator[dict[str, Any]]:
    if found["kind"] in ("Deployment", "DaemonSet"):
        pod = found["spec"]["template"]["spec"]
        yield from (*pod["containers"], *pod.get("initContainers", ()))


def parent(found: Object, path: str) -> tuple[Any, Any]:
    """Where a path such as `containers.[name=agent].resources` leads: the part of the object, and the key in it."""
    *steps, last = path.split(".")
    place: Any = found
    for step in steps:
        if named := re.fullmatch(r"\[name=(.+)\]", step):
            (place,) = (each for each in place if each["name"] == named[1])
        elif number := re.fullmatch(r"\[(\d+)\]", step):
            place = place[int(number[1])]
        else:
            place = place[step]
    return place, last
