"""The commit before this one, as what a cluster would be upgraded from: its files, and its image."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from hack.testbed import images
from hack.testbed.cluster import PROJECT
from vgpu_runtime.sim.hip import default_cache

TAG = "0.1.0-previous"
# What an upgrade needs of the earlier commit; where it was not there yet, there is nothing to upgrade from.
NEEDED = "manifests/overlays/simulated/kustomization.yaml"


@dataclass(frozen=True)
class Previous:
    """`source` is a checkout, `archive` its image under the tag TAG."""

    source: Path
    archive: Path


def prepare() -> Previous:
    """Unpack and build it; where there is no earlier commit (no history), this checkout stands in for it."""
    source = _unpacked() or PROJECT
    return Previous(source, images.build("vgpu", source=source, tag=TAG))


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
