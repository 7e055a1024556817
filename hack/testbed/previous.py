"""Prepares files and images of an earlier commit, for tests that upgrade a cluster from it and roll back to it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.testbed.cluster import PROJECT
from vgpu_runtime.sim.hip import default_cache

TAG = "0.1.0-previous"
# The file that names the commit.
FILE = PROJECT / "hack/testbed/upgrade-from"
# The images of the product, which have a version as their tag.
OURS = {"vgpu", "simulated"}


@dataclass(frozen=True)
class Previous:
    """The earlier version: `source` is a checkout, `archives` are its images with the tag TAG."""

    source: Path
    archives: Sequence[Path]


def prepare() -> Previous:
    """Unpack the earlier commit and build its images; in a clone without the commit, use this checkout."""
    source = _unpacked() or PROJECT
    listed = {line.split()[0] for line in _image(source, "list").splitlines()}
    built = _image(source, "build", *sorted(OURS & listed), f"--tag={TAG}")
    return Previous(source, [Path(line) for line in built.splitlines()])


def _image(source: Path, *words: str) -> str:
    """Run the checkout's own `hack/image`, which builds the images of its manifests; returns the output."""
    command = [sys.executable, "-m", "hack.testbed.images.command", *words]
    return subprocess.run(command, cwd=source, stdout=subprocess.PIPE, text=True, check=True).stdout


def commit() -> str:
    """The commit that FILE names."""
    (named,) = (line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    return named


def _unpacked() -> Path | None:
    folder = default_cache() / "previous" / commit()
    if not folder.exists():
        asked = ("git", "archive", commit())
        packed = subprocess.run(asked, cwd=PROJECT, capture_output=True, check=False)
        if packed.returncode:
            print(f"no commit {commit()} in this clone: it is upgraded from itself", file=sys.stderr)
            return None
        folder.mkdir(parents=True)
        subprocess.run(["tar", "--extract", "--directory", folder], input=packed.stdout, check=True)
    return folder
