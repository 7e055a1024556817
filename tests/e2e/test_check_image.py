"""`vgpu check --image` on a real cluster: a pod of the image says what the loaders of its programs do."""

import json
import subprocess
import sys

from hack.testbed.images.ours import NAME, TAG
from hack.testbed.layout import PAUSE
from tests.e2e.kubectl import Kubectl
from tests.pages import PROJECT


def looked(kubectl: Kubectl, image: str, *program: str) -> tuple[int, list[dict[str, str]], str]:
    """The exit status, the findings, and the lines on stderr."""
    command = [
        sys.executable,
        "-m",
        "device_plugin",
        "check",
        "--image",
        image,
        "-n",
        kubectl.namespace,
        "-o",
        "json",
    ]
    words = ["--", *program] if program else []
    done = subprocess.run(
        [*command, *words], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=240
    )
    print(done.stderr)
    return done.returncode, json.loads(done.stdout)["findings"] if done.stdout else [], done.stderr


def test_a_glibc_program_is_held_and_a_static_one_is_not(kubectl: Kubectl) -> None:
    """Our own image is Debian's Python without a shell; the pause image of these nodes has a static busybox."""
    status, (found,), _ = looked(kubectl, f"{NAME}:{TAG}", "python3.11", "train.py")
    assert (status, found["state"]) == (0, "ok"), found
    assert "loads the library" in found["text"]
    status, (found,), _ = looked(kubectl, PAUSE, "/bin/busybox")
    assert (status, found["state"]) == (1, "problem"), found
    assert "linked statically" in found["text"]
    assert not kubectl.items()


def test_an_image_that_does_not_exist_is_an_error(kubectl: Kubectl) -> None:
    status, findings, said = looked(kubectl, "registry.invalid/none:1")
    assert (status, findings) == (2, [])
    assert "registry.invalid/none:1" in said
