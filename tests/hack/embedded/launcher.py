"""Builds the container launcher, as `make` does."""

import shutil
import subprocess
from pathlib import Path

from tests.requirement import require
from vgpu_runtime.paths import BUILD, SOURCES


def build() -> Path:
    """The launcher, built if need be."""
    require(shutil.which("cc") and shutil.which("make"), "needs cc and make: apt-get install gcc make")
    folder = SOURCES.parent / "hack/embedded/runtime"
    subprocess.run(["make", "--no-print-directory", "-s", "-C", folder], check=True)
    return BUILD / "vgpu-container"
