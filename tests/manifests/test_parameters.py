"""admission/parameters.yaml is the one place for prefixes and scheduler name; the files as they stand say the same."""

import json
import shutil
from pathlib import Path

import yaml

from device_plugin.embedded.apiserver.server import policy_files
from tests.manifests.conftest import MANIFESTS, Object, kustomize

POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def specs(objects: list[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] in POLICIES}


def test_the_files_as_they_stand_are_what_kustomize_makes_of_them() -> None:
    raw = [item for path in policy_files() for item in yaml.safe_load_all(path.read_text())]
    assert _unfolded(specs(raw)) == _unfolded(specs(kustomize(MANIFESTS / "admission").objects))


def test_what_is_written_there_reaches_every_policy(tmp_path: Path) -> None:
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    file = tmp_path / "manifests/admission/parameters.yaml"
    before = "hygon.com/dcu,hygon.com/hcu,amd.com/gpu,nvidia.com/gpu"
    text = file.read_text().replace(before, "vendor.com/dcu").replace('"vgpu-scheduler"', '"their-scheduler"')
    file.write_text(text)
    made = specs(kustomize(tmp_path / "manifests/admission").objects)
    assert before not in json.dumps(made)
    asking = [name for name, spec in made.items() if '\\"vendor.com/dcu\\".split' in json.dumps(spec)]
    assert sorted(asking) == ["vgpu-isolation", "vgpu-requests", "vgpu-scheduler-name"]
    for name in ("vgpu-requests", "vgpu-scheduler-name"):
        (variable,) = (v for v in made[name]["variables"] if v["name"] == "schedulerName")
        assert variable["expression"] == '"their-scheduler"'


def test_no_policy_reads_an_object_that_may_be_gone() -> None:
    assert not [
        name
        for name, spec in specs(kustomize(MANIFESTS / "admission").objects).items()
        if "paramKind" in spec
    ]


def _unfolded(value: object) -> str:
    """As text with one space for any space: kustomize folds long lines in its own way."""
    return " ".join(json.dumps(value, sort_keys=True).replace("\\n", " ").split())
