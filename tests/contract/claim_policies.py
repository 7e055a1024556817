"""The admission policies with the component `dra`, as kustomize writes them, for API servers without that overlay."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.embedded.apiserver.server import policy_files
from vgpu_runtime.paths import SOURCES

COMPONENT = SOURCES.parent / "manifests" / "components" / "dra"
Document = dict[str, Any]


def changed() -> list[Document]:
    """The policies of manifests/admission that the component changes, with its term in their conditions `asks`."""
    (terms,) = documents(COMPONENT / "asks.yaml")
    targets = {
        (target["select"]["kind"], target["select"]["name"]): terms["data"][
            source["fieldPath"].removeprefix("data.")
        ]
        for source, targets in _replacements()
        if source["name"] == terms["metadata"]["name"]
        for target in targets
    }
    found = []
    for item in (item for path in policy_files() for item in documents(path)):
        if term := targets.pop((item["kind"], item["metadata"]["name"]), ""):
            (asks,) = (each for each in item["spec"]["matchConditions"] if each["name"] == "asks")
            asks["expression"] += f" || {term}"
            found.append(item)
    assert not targets, targets
    return found


def added() -> list[Document]:
    """The policies and bindings of the component itself."""
    return list(documents(COMPONENT / "admission.yaml"))


def written(folder: Path) -> list[Path]:
    """Files with all policies: those of manifests/admission as the component changes them, and its own."""
    now = {(item["kind"], item["metadata"]["name"]): item for item in changed()}
    items = [item for path in policy_files() for item in documents(path)]
    file = folder / "policies.yaml"
    file.write_text(
        yaml.safe_dump_all(
            [*(now.get((item["kind"], item["metadata"]["name"]), item) for item in items), *added()]
        )
    )
    return [file]


def documents(path: Path) -> Iterator[Document]:
    """The objects of a manifest."""
    yield from (item for item in yaml.safe_load_all(path.read_text()) if item)


def _replacements() -> Iterator[tuple[Document, list[Document]]]:
    (component,) = documents(COMPONENT / "kustomization.yaml")
    yield from ((each["source"], each["targets"]) for each in component["replacements"])
