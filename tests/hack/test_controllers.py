"""Other projects' controllers on the test cluster: their own manifests, with the images that are built here."""

import json
import shutil
from pathlib import Path

import pytest

from hack.testbed import programs
from hack.testbed.controllers import JOB_SET, KINDS, KUEUE, Controller
from tests.manifests.conftest import kustomize

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "controller-manager"},
    "spec": {
        "template": {
            "spec": {"containers": [{"name": "manager", "image": "example.com/x:1", "args": ["--config=a"]}]}
        }
    },
}
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}


@pytest.mark.parametrize("controller", [KUEUE, *KINDS], ids=lambda each: each.name)
def test_its_manifests_get_the_image_that_is_built_here(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "controller", lambda *_: tmp_path / "built")
    default = tmp_path / "built" / controller.overlay
    default.mkdir(parents=True)
    names = ("kept", *controller.left_out)
    definitions = [{**DEFINITION, "metadata": {"name": name}} for name in names]
    (default / "all.yaml").write_text("\n---\n".join(map(json.dumps, (DEPLOYMENT, *definitions))))
    (default / "kustomization.yaml").write_text(json.dumps({"resources": ["all.yaml"]}))
    folder = tmp_path / "overlay"
    folder.mkdir()
    controller.write_overlay(folder)
    made = kustomize(folder)
    assert [each["metadata"]["name"] for each in made.of("CustomResourceDefinition")] == ["kept"]
    (container,) = made.containers()
    image = f"vgpu.io/{controller.name}:{programs.pinned(controller.name, controller.module)}"
    assert (container["image"], container["imagePullPolicy"]) == (image, "Never")
    assert tuple(container["args"]) == (controller.flags or ("--config=a",))


def test_it_needs_go_until_it_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VGPU_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(programs.MissingError) as error:
        JOB_SET.image()
    assert str(error.value) == "missing: Go 1.26 or newer, to build jobset: https://go.dev/doc/install"
    built = tmp_path / "programs" / f"jobset-{JOB_SET.version}"
    built.mkdir(parents=True)
    (built / "jobset").write_text("program")
    assert JOB_SET.image().is_file()
