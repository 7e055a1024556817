"""Finds the images that an installation needs in manifests/; a site without a network must have all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vgpu_runtime.paths import SOURCES

MANIFESTS = SOURCES.parent / "manifests"
SCHEDULER = "registry.k8s.io/kube-scheduler"
# The bases, and the components that add pods for real cards.
INSTALLED = {"cluster", "node", "jobs"}
_POD_PARTS = ("initContainers", "containers")


@dataclass(frozen=True)
class NeededImage:
    """An image, `registry/name:tag`, and the bases, components or overlays of manifests/ that name it."""

    reference: str
    named_by: Sequence[str]

    @property
    def name(self) -> str:
        """The name of the image, without its tag."""
        return self.reference.rpartition(":")[0]


def needed(manifests: Path = MANIFESTS) -> Sequence[NeededImage]:
    """The images of all bases, components and overlays, by name and tag."""
    found: dict[str, set[str]] = {}
    for file in (*sorted(manifests.glob("base/*/**/*.yaml")), *sorted(manifests.glob("components/*/*.yaml"))):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            for reference in _references(document):
                found.setdefault(reference, set()).add(file.relative_to(manifests).parts[1])
    for file in sorted(manifests.glob("overlays/*/kustomization.yaml")):
        overlay = yaml.safe_load(file.read_text(encoding="utf-8"))
        for image in overlay.get("images", ()):
            found.setdefault(f"{image['name']}:{image['newTag']}", set()).add(file.parent.name)
    return [NeededImage(reference, sorted(found[reference])) for reference in sorted(found)]


def scheduler() -> str:
    """The image of kube-scheduler in the base of manifests/."""
    return next(
        image.reference for image in needed() if image.name == SCHEDULER and "cluster" in image.named_by
    )


def listed() -> str:
    """The text of images.txt: a line per image that an installation needs, except images for simulated cards."""
    return "".join(f"{image.reference}\n" for image in needed() if INSTALLED & {*image.named_by})


def _references(document: Mapping[str, Any] | None) -> Iterator[str]:
    """The images of a workload's containers."""
    template = ((document or {}).get("spec") or {}).get("template") or {}
    for part in _POD_PARTS:
        for container in (template.get("spec") or {}).get(part, ()):
            if "image" in container:
                yield container["image"]
