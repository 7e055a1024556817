"""`vgpu run` on a real cluster: scripts, output, progress, the program's exit status, and a result that is fetched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.cli.run import follow
from device_plugin.kube.api import JOBS, PODS, Kind
from device_plugin.wiring.commands import main
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.waiting import PATIENCE, eventually
from tests.e2e.workloads import IMAGE
from tests.ongoing import Ongoing
from tests.release import OLDER

CONFIGMAPS = Kind("", "v1", "configmaps", "ConfigMap", dict)
SERVICES = Kind("", "v1", "services", "Service", dict)
SECONDS = 120
OPTIONS = ("--scheduler=vgpu-scheduler",) if OLDER else ()


def run(kubectl: Kubectl, name: str, *words: str) -> int:
    return main(command(kubectl, name, *words))


def command(kubectl: Kubectl, name: str, *words: str) -> list[str]:
    return ["run", name, f"--image={IMAGE}", "-n", kubectl.namespace, *OPTIONS, *words]


def test_scripts_are_run_and_one_that_fails_does_not_end_the_other(
    kubectl: Kubectl, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.sh").write_text("echo first\nexit 7\n")
    (tmp_path / "b.sh").write_text("#!/bin/sh\necho second\n")
    files = f"--split={tmp_path}/a.sh,{tmp_path}/b.sh"
    assert run(kubectl, "parts", "--mem=1", "--rm", files) == 7
    told = capfd.readouterr()
    assert sorted(told.out.splitlines()) == ["[0] first", "[1] second"], told.err
    assert "parts failed: FailedIndexes" in told.err
    assert eventually(lambda: not kubectl.items(JOBS), 30)
    assert eventually(lambda: not kubectl.has(CONFIGMAPS, "parts"), 30)


def test_the_services_of_torchrun_go_with_its_job(kubectl: Kubectl) -> None:
    assert run(kubectl, "agents", "--mem=1", "--replicas=2", "--detach", "--", "torchrun", "train.py") == 0
    assert {each["metadata"]["name"] for each in kubectl.items(SERVICES)} == {"agents", "agents-pods"}
    kubectl("delete", "job", "agents", "--wait=false")
    assert eventually(lambda: not kubectl.items(SERVICES), 30)


@pytest.fixture
def volume(kubectl: Kubectl, machines: Machines) -> Iterator[Path]:
    """A folder of the first node, which is the volume of the claim `data`."""
    folder, name = Path("/run/results") / kubectl.namespace, f"results-{kubectl.namespace}"
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    size = {"storage": "1Mi"}
    kubectl.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                **common,
                "capacity": size,
                "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {**common, "resources": {"requests": size}, "volumeName": name},
        },
    )
    yield folder
    kubectl("delete", "persistentvolume", name, "--wait=false")
    machines.run(nodes.first(), "rm", "-rf", str(folder))


def test_a_program_is_followed_and_its_result_fetched_when_its_cards_are_free(
    kubectl: Kubectl, machines: Machines, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LINE_SECONDS", 0.5)
    program = """
        /usr/local/vgpu/vgpu-progress 5 10
        until [ -e /data/seen ]; do sleep 0.1; done
        echo trained
        echo weights > /data/model
    """
    words = (
        "--mem=1",
        "--rm",
        "--volume=data:/data",
        f"--fetch=/data/model:{tmp_path}/model",
        "--",
        "sh",
        "-ec",
        program,
    )
    training = Ongoing(*command(kubectl, "train", *words))
    training.says("train: 5 of 10", PATIENCE * SECONDS)
    machines.run(nodes.first(), "touch", str(volume / "seen"))
    assert training.end(PATIENCE * SECONDS) == 0
    training.says(f"train: done\ntrain: fetched {tmp_path}/model\n")
    assert training.out.splitlines() == ["trained"]
    assert (tmp_path / "model").read_text() == "weights\n"
    assert eventually(lambda: not kubectl.items(PODS), 30)
