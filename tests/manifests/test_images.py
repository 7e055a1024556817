"""The list of images is what kustomize makes of the manifests; test_helm.py has that of the chart."""

import json
import shutil
from pathlib import Path

from hack.releases import images
from tests.manifests.conftest import MANIFESTS, OVERLAYS, Installation, kustomize, rendered


def references(found: Installation) -> set[str]:
    return {container["image"] for container in found.containers()}


def test_every_image_of_the_overlays_is_listed_and_no_other() -> None:
    made = set[str]().union(*(references(rendered(overlay)) for overlay in OVERLAYS))
    assert made == {image.reference for image in images.needed()}


def test_images_txt_is_what_the_default_overlay_and_all_components_for_real_cards_need(
    tmp_path: Path,
) -> None:
    overlay = shutil.copytree(MANIFESTS, tmp_path / "manifests") / "overlays/mine"
    overlay.mkdir()
    components = sorted(path.name for path in (MANIFESTS / "components").iterdir())
    added = [
        f"../../components/{name}" for name in components if name not in ("parameters", "simulated-cards")
    ]
    (overlay / "kustomization.yaml").write_text(
        json.dumps({"resources": ["../default"], "components": added})
    )
    assert {*images.listed().splitlines()} == references(kustomize(overlay))
    assert images.scheduler() in images.listed().splitlines()
