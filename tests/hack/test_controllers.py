"""Kueue on the test cluster: its own manifests, with the image that is built here."""

import json
from pathlib import Path

import pytest

from hack.testbed import kueue, programs
from tests.manifests.conftest import kustomize

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "controller-manager"},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "manager", "image": "example.com/x:1", "imagePullPolicy": "Always"}]
            }
        }
    },
}


def test_its_manifests_get_the_image_that_is_built_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "kueue", lambda: tmp_path / "built")
    default = tmp_path / "built/config/default"
    default.mkdir(parents=True)
    (default / "manager.yaml").write_text(json.dumps(DEPLOYMENT))
    (default / "kustomization.yaml").write_text(
        json.dumps({"namePrefix": "kueue-", "resources": ["manager.yaml"]})
    )
    folder = tmp_path / "overlay"
    folder.mkdir()
    kueue.write_overlay(folder)
    made = kustomize(folder)
    assert [each["metadata"]["name"] for each in made.of("Deployment")] == [kueue.DEPLOYMENT]
    (container,) = made.containers()
    version = programs.version(kueue.MODULE)
    assert (container["image"], container["imagePullPolicy"]) == (f"vgpu.io/kueue:{version}", "Never")
