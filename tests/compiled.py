"""The programs in C that tests need, compiled as `make` does it."""

import fcntl
import platform
import shutil
import subprocess
from pathlib import Path

from tests.requirement import require
from vgpu_runtime.paths import BUILD, SOURCES

# Debian's cross compilers and their libcs.
_CROSS = {
    "aarch64": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    "x86_64": ("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"),
}
ARCHITECTURES = tuple(sorted(_CROSS))


def library(architecture: str = platform.machine()) -> Path:
    """The folder with all that `make -C vgpu_runtime` builds, for this machine or for another architecture."""
    if architecture == platform.machine():
        return _made(SOURCES)
    compiler = f"{architecture}-linux-gnu-gcc"
    package, libc = _CROSS[architecture]
    require(shutil.which(compiler), f"needs {compiler}: apt-get install {package} {libc}")
    return _made(SOURCES, f"ARCH={architecture}") / architecture


def launcher() -> Path:
    """The container launcher of the one-machine cluster."""
    return _made(SOURCES.parent / "hack/embedded/runtime") / "vgpu-container"


def _made(folder: Path, *settings: str) -> Path:
    """Build what is older than its sources. Processes of one test run take turns."""
    require(shutil.which("cc") and shutil.which("make"), "needs cc and make: apt-get install gcc make")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--no-print-directory", "-s", "-C", folder, *settings], check=True)
    return BUILD
