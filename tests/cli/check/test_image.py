"""`vgpu check --image` says what a pod of the image finds, and leaves no pod behind. The test is the kubelet."""

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from device_plugin.cli.check import image
from device_plugin.cli.check.image import ImageCheck, ImageCheckError
from device_plugin.wiring.commands import main
from tests.cli.fleet import Fleet
from tests.deadline import eventually

IMAGE, OURS = "registry.example/train:1", "registry.example/vgpu:1"
LOADED = {
    "program": "python3",
    "path": "/usr/bin/python3",
    "loader": "/lib64/ld-linux.so.2",
    "state": "loaded",
}


class Look:
    """A running `vgpu check --image`; its pod waits for what the test says of it."""

    def __init__(self, fleet: Fleet, *words: str) -> None:
        self._fleet = fleet
        self._words = ["check", "--kubeconfig", str(fleet.kubeconfig), "--image", IMAGE, *words]
        self.status = -1
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert eventually(lambda: bool(fleet.pods()), 30)
        ((self.name, self.pod),) = fleet.pods().items()

    def _run(self) -> None:
        self.status = main(self._words)

    def ends(self, *loads: Mapping[str, str]) -> int:
        """The pod ends with these lines; returns the command's exit status."""
        lines = "".join(json.dumps({"said": "", **each}) + "\n" for each in loads)
        return self.is_in({"terminated": {"exitCode": 0, "message": lines}}, "Succeeded")

    def is_in(self, state: Mapping[str, Any], phase: str = "Pending", **more: Any) -> int:
        """The container is in this state; returns the exit status of the command, which ends for it."""
        self._fleet.say(self.name, phase=phase, containerStatuses=[{"name": "image", "state": state}], **more)
        return self.ended()

    def ended(self) -> int:
        """The exit status of the command."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self._fleet.pods() == {}
        return self.status


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "LOOK_SECONDS", 0.01)


def test_a_program_that_loads_the_library_is_held(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        Look(fleet, "--vgpu-image", OURS).ends(LOADED, {**LOADED, "program": "sh", "state": "no program"})
        == 0
    )
    assert capsys.readouterr().out == (
        f"ok       image        python3 of {IMAGE} loads the library: its slice limits it\n"
    )


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        ({"state": "static", "loader": ""}, "is linked statically"),
        ({"state": "not loaded", "loader": "/lib/ld-musl-x86_64.so.1"}, "set LD_PRELOAD=/usr/local/vgpu/libvgpu.so"),
        ({"state": "not loaded", "said": "GLIBC_2.17 not found"}, "GLIBC_2.17 not found: use an image with glibc 2.17"),
        ({"state": "no program", "path": ""}, "as the pod's command does"),
        ({"state": "no loader"}, "lacks /lib64/ld-linux.so.2, which train"),
        ({"state": "unreadable"}, "cannot be read by user 65532"),
        ({"state": "no 64-bit program"}, "64 bits"),
    ],
)  # fmt: skip
def test_a_program_that_is_not_held_is_a_problem_with_a_cure(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], loads: Mapping[str, str], text: str
) -> None:
    look = Look(fleet, "--vgpu-image", OURS, "--", "train", "--epochs", "9")
    command = look.pod["spec"]["containers"][0]["command"]
    assert command == ["/usr/local/vgpu/vgpu-loads", "/dev/termination-log", "train"]
    assert look.ends({**LOADED, "program": "train", **loads}) == 1
    assert text in capsys.readouterr().out


def test_a_script_is_held_by_its_interpreter(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    look = Look(fleet, "--vgpu-image", OURS, "-o", "json", "--", "/app/train")
    assert look.ends({**LOADED, "program": "/app/train"}) == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["text"].startswith("/app/train (run by /usr/bin/python3) of")


def test_an_image_without_the_usual_programs_is_unknown(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Look(fleet, "--vgpu-image", OURS).ends({**LOADED, "state": "no program"}) == 0
    assert "unknown  image" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "phase", "more", "text"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "Pending", {}, "no such image"),
        ({"waiting": {"reason": "InvalidImageName"}}, "Pending", {}, f"{IMAGE}: InvalidImageName"),
        ({"terminated": {"exitCode": 128, "message": "exec format error"}}, "Failed", {}, "exec format error"),
        ({}, "Failed", {"reason": "DeadlineExceeded"}, "DeadlineExceeded"),
        (
            {"waiting": {"reason": "PodInitializing"}}, "Failed",
            {"initContainerStatuses": [{"name": "library", "state": {"terminated": {"exitCode": 2}}}]},
            f"{OURS} could not copy the library",
        ),
        ({"terminated": {"exitCode": 0, "message": "hello"}}, "Succeeded", {}, "answered 'hello'"),
    ],
)  # fmt: skip
def test_a_pod_that_cannot_look_is_an_error(
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
    state: Mapping[str, Any],
    phase: str,
    more: Any,
    text: str,
) -> None:
    assert Look(fleet, "--vgpu-image", OURS).is_in(state, phase, **more) == 2
    assert text in capsys.readouterr().err


def test_a_deleted_pod_is_an_error(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    look = Look(fleet, "--vgpu-image", OURS)
    fleet.remove(look.name)
    assert look.ended() == 2
    assert "was deleted by somebody else" in capsys.readouterr().err


def test_the_image_of_vgpu_is_the_agents() -> None:
    spec = {"template": {"spec": {"containers": [{"name": "agent", "image": OURS}]}}}
    assert image.image_of([{"metadata": {"name": "vgpu-node"}, "spec": spec}]) == OURS
    with pytest.raises(ImageCheckError, match="--vgpu-image"):
        image.image_of([])


def test_a_program_without_an_image_is_an_error(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--kubeconfig", str(fleet.kubeconfig), "--", "train"]) == 2
    assert "write --image" in capsys.readouterr().err


def test_the_pod_is_of_the_restricted_standard() -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
    spec = ImageCheck(IMAGE, (), "default", OURS).pod()["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert all(set(volume) == {"name", "emptyDir"} for volume in spec["volumes"])
