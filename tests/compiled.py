"""The programs in C that tests need, compiled as `make` does it."""

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.requirement import require
from vgpu_runtime.paths import BUILD, SOURCES


def library() -> Path:
    """The folder with all that `make -C vgpu_runtime` builds."""
    return _made(SOURCES)


def launcher() -> Path:
    """The container launcher of the one-machine cluster."""
    return _made(SOURCES.parent / "hack/embedded/runtime") / "vgpu-container"


def _made(folder: Path) -> Path:
    """Build what is older than its sources. Processes of one test run take turns."""
    require(shutil.which("cc") and shutil.which("make"), "needs cc and make: apt-get install gcc make")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--no-print-directory", "-s", "-C", folder], check=True)
    return BUILD
