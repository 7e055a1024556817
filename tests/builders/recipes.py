"""The pods of docs/recipes, as the controllers of their products make them."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any

from device_plugin.core.pod_sets import PodSet, pod_sets
from tests.pages import PROJECT, documents

FOLDER = PROJECT / "docs/recipes"
RECIPES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")


def shown(recipe: str) -> list[Any]:
    """The YAML documents of a page."""
    return [document for page, document in documents() if page == FOLDER / f"{recipe}.md"]


def pods(recipe: str) -> list[dict[str, Any]]:
    """A pod of each set of pods that a page's documents make, and each profile's."""
    return [
        deepcopy({"apiVersion": "v1", "kind": "Pod", "metadata": {}, **each.template})
        for each in chain.from_iterable(map(_sets, shown(recipe)))
    ]  # fmt: skip


def _sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    if "singleuser" in document:
        return map(_notebook, document["singleuser"]["profileList"])
    if document["kind"] == "ClusterTrainingRuntime":
        # Its template is a JobSet's.
        document = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            **document["spec"]["template"],
        }
    return pod_sets(document)


def _notebook(profile: Mapping[str, Any]) -> PodSet:
    """The pod that KubeSpawner makes of a profile: one container, with the profile's limits."""
    override = profile.get("kubespawner_override", {})
    limits = dict(override.get("extra_resource_limits", {}))
    if "mem_limit" in override:
        limits["memory"] = override["mem_limit"]
    container = {
        "name": "notebook",
        "image": override.get("image", "notebook"),
        "resources": {"limits": limits},
    }
    return PodSet({"metadata": {"labels": {"app": "jupyterhub"}}, "spec": {"containers": [container]}})
