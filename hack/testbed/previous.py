"""The previous commit, from which tests upgrade a cluster: its files and its images."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.testbed.cluster import PROJECT
from vgpu_runtime.sim.hip import default_cache

TAG = "0.1.0-previous"
# The images that have a tag.
OURS = {"vgpu", "simulated"}
# Files of the previous commit that an upgrade needs; without them there is nothing to upgrade from.
NEEDED = "manifests/overlays/simulated/kustomization.yaml"


@dataclass(frozen=True)
class Previous:
    """`source` is a checkout, `archives` are its own images under the tag TAG."""

    source: Path
    archives: Sequence[Path]


def prepare() -> Previous:
    """Unpack and build it; where there is no earlier commit (no history), this checkout stands in for it."""
    source = _unpacked() or PROJECT
    listed = {line.split()[0] for line in _image(source, "list").splitlines()}
    built = _image(source, "build", *sorted(OURS & listed), f"--tag={TAG}")
    return Previous(source, [Path(line) for line in built.splitlines()])


def _image(source: Path, *words: str) -> str:
    """The output of `hack/image` in that checkout, whose own recipe builds the images that its manifests expect."""
    command = [sys.executable, "-m", "hack.testbed.images.command", *words]
    return subprocess.run(command, cwd=source, stdout=subprocess.PIPE, text=True, check=True).stdout


def _unpacked() -> Path | None:
    asked = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", "HEAD~1"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    commit = asked.stdout.strip()
    if not commit:
        return None
    folder = default_cache() / "previous" / commit
    if not folder.exists():
        packed = subprocess.run(
            ["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True
        ).stdout
        folder.mkdir(parents=True)
        subprocess.run(["tar", "--extract", "--directory", folder], input=packed, check=True)
    return folder if (folder / NEEDED).exists() else None
