"""What the API server answers to a dry run of pods, with the job engine's admission policies in force."""

import json
from pathlib import Path

import pytest

from device_plugin.wiring.commands import main
from hack.embedded.apiserver.server import job_policy_files, policy_files
from tests.builders import objects
from tests.builders.cards import MEM
from tests.cli.fleet import Fleet


@pytest.fixture
def policies() -> list[Path]:
    return [*policy_files(), *job_policy_files()]


def test_only_pods_that_no_controller_makes_are_refused_where_a_queue_is_required(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1")
    fleet.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"vgpu.io/queue-required": "true"}}})
    made = [
        objects.job("train", 1, pod={"containers": [objects.container(limits={MEM: "2"})]}),
        objects.pod("alone", {MEM: "2"}),
    ]
    file = tmp_path / "pods.yaml"
    file.write_text("\n---\n".join(map(json.dumps, made)))
    assert main(["fit", str(file), "--kubeconfig", str(fleet.kubeconfig)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("default/train: 1 of 1 fit now")
    assert said[-2].startswith("default/alone: the API server refuses it: ")
    assert "a single pod cannot" in said[-2]
