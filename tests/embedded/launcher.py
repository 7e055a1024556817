"""Builds the container launcher, as `make` does."""

import shutil
import subprocess
from pathlib import Path

from tests.requirement import require

REPOSITORY = Path(__file__).parents[2]


def build() -> Path:
    """The launcher, built if need be."""
    require(shutil.which("cc") and shutil.which("make"), "needs cc and make: apt-get install gcc make")
    subprocess.run(
        ["make", "--no-print-directory", "-s", "-C", REPOSITORY / "device_plugin/embedded/runtime"],
        check=True,
    )
    return REPOSITORY / "build" / "vgpu-container"
