"""The image of both services: see the Dockerfile. Debian and the locked packages are one layer, our files another."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hack.testbed.images import dockerfile, oci, python
from hack.testbed.images.layers import archive, layer

NAME = "vgpu.io/vgpu"
TAG = "0.1.0"
LIBRARIES = ("libvgpu.so", "libsimkfd.so")
SUFFIXES = (".py", ".yaml")
ENTRY = Path(__file__).parent / "vgpu"


def build(source: Path, tag: str = TAG, revision: str = "unknown") -> Path:
    """The archive of the image with the files of the checkout `source`."""
    native(source)
    root = python.tree()
    files = files_of(source)

    def fill(folder: Path) -> None:
        copy(files, folder)
        python.compile_all(root, folder, "opt/vgpu/device_plugin", "opt/vgpu/vgpu_runtime")

    own = layer("ours", fill, root.name, *(part for item in files.items() for part in item))
    config = dockerfile.config({"REVISION": revision, "VERSION": tag})
    return archive("vgpu", oci.Image(f"{NAME}:{tag}", (python.layer(root), own), config))


def native(source: Path) -> None:
    """Build what is out of date of the native half of a checkout."""
    command = ["make", "--no-print-directory", "-C", str(source / "vgpu_runtime")]
    subprocess.run(command, check=True, stdout=sys.stderr)


def files_of(source: Path) -> Mapping[str, Path]:
    """Where in the image which files go, compiled Python left out."""
    files = {f"opt/vgpu/build/{name}": source / "build" / name for name in LIBRARIES}
    for package in ("device_plugin", "vgpu_runtime"):
        for path in sorted((source / package).rglob("*")):
            if path.suffix in SUFFIXES:
                files[f"opt/vgpu/{path.relative_to(source)}"] = path
    return files | {"usr/local/bin/vgpu": ENTRY}


def copy(files: Mapping[str, Path], folder: Path) -> None:
    """Copy files to their places below `folder`, with their modes."""
    for place, file in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / place)
