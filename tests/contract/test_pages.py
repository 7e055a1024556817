"""What README and docs show of pods is accepted by the admission policies."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.objects import pod
from tests.pages import PROJECT, documents
from tests.release import NAMED

# Jobs of a group beside its trainers.
WITHOUT_CARDS = ("master", "ps")


def shown() -> Iterator[Any]:
    """The pod of each workload on a page that asks for a card, with the page's name and the pod's."""
    for page, found in documents():
        # Parts of a kustomization have no kind.
        kind = found.get("kind")
        if kind == "Pod":
            yield pytest.param(found, id=f"{page.relative_to(PROJECT)}-{found['metadata']['name']}")
        elif kind in ("Deployment", "Job") and found["metadata"]["name"] not in WITHOUT_CARDS:
            template = found["spec"]["template"]
            yield pytest.param(template, id=f"{page.relative_to(PROJECT)}-{found['metadata']['name']}")


@pytest.mark.parametrize("example", list(shown()))
def test_a_pod_that_a_page_shows_is_accepted(name: str, accepted: Any, example: dict[str, Any]) -> None:
    spec = accepted(pod(name, **{**NAMED, **example["spec"]}) | _labelled(name, example.get("metadata", {})))
    assert spec["schedulerName"] == "vgpu-scheduler"
    asked = [c["resources"] for c in example["spec"]["containers"]]
    limits = [resource for each in asked for resource in each.get("limits", ())]
    assert any(each.startswith("hygon.com/dcu") for each in limits) or all("claims" in each for each in asked)


def _labelled(name: str, metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    return {"metadata": {"name": name, **kept}}
