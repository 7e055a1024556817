"""`vgpu fit` reads what docs/recipes show, and the recipes have the settings that their text explains."""

import json
from pathlib import Path

import pytest
import yaml

from device_plugin.wiring.commands import main
from tests.builders.recipes import RECIPES, pods, shown
from tests.cli.fleet import Fleet

# How many pods of each set ask for a slice, by the page.
ASKED = {"jupyterhub": [0, 1, 1], "kserve": [1], "kubeflow-trainer": [2], "ray": [0, 4, 0, 4], "vllm": [1]}


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_makes_fits_free_cards(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], recipe: str
) -> None:
    fleet.node("n1", 2)
    fleet.patch(
        "/api/v1/nodes/n1/status",
        {"status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}},
    )
    documents = shown(recipe)
    if recipe == "jupyterhub":
        # Values of a chart: `fit` reads the pods that they make.
        documents = [
            {**pod, "metadata": {**pod["metadata"], "name": f"notebook-{number}"}}
            for number, pod in enumerate(pods(recipe))
        ]
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    assert main(["fit", str(file), "-o", "json", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    told = json.loads(capsys.readouterr().out)["workloads"]
    assert [each["fit"] for each in told] == [each["asked"] for each in told] == ASKED[recipe]


def test_ray_is_told_how_many_cards_a_worker_sees() -> None:
    cluster, job = shown("ray")
    for spec in (cluster["spec"], job["spec"]["rayClusterSpec"]):
        (group,) = spec["workerGroupSpecs"]
        assert group["rayStartParams"]["num-gpus"] == "1"
        (container,) = group["template"]["spec"]["containers"]
        # KubeRay counts GPUs by resources whose names end so.
        assert not any(resource.endswith("gpu") for resource in container["resources"]["limits"])


def test_a_ray_job_in_a_queue_may_be_suspended() -> None:
    (_, job) = shown("ray")
    assert job["metadata"]["labels"] == {"vgpu.io/queue": "default"}
    # KubeRay refuses a suspended RayJob whose cluster stays.
    assert job["spec"]["shutdownAfterJobFinishes"] is True


def test_the_trainer_is_told_how_many_processes_a_slice_has() -> None:
    runtime, job = shown("kubeflow-trainer")
    assert runtime["spec"]["mlPolicy"]["torch"] == {"numProcPerNode": 1}
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
