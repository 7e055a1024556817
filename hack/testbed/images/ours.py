"""Builds the images of the Dockerfile, with layers for Debian and the locked packages, the product, simulated cards."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hack.testbed.images import dockerfile, oci, python
from hack.testbed.images.layers import archive, layer
from vgpu_runtime.paths import LIBRARY, LOADS, SMI, TELL

NAME, SIMULATED = "vgpu.io/vgpu", "vgpu.io/vgpu-simulated"
TAG = "0.1.0"
SUFFIXES = (".py", ".yaml", ".html", ".css", ".js", ".svg")
# By Go's name of an architecture, its name for compilers.
MACHINES = {"amd64": "x86_64", python.ARM: "aarch64"}
# The folder of vgpu_runtime that is only in the image with simulated cards.
SIMULATION = Path("vgpu_runtime/sim")
_HERE = Path(__file__).parent


def build(source: Path, tag: str, architecture: str = oci.ARCHITECTURE) -> Path:
    """Build the image with the product of the checkout `source`; returns the archive."""
    return archive("vgpu", product(source, tag, architecture))


def product(source: Path, tag: str, architecture: str = oci.ARCHITECTURE) -> oci.Image:
    """The image with the product of the checkout `source`, for this architecture."""
    native(source, architecture)
    root = python.tree(architecture)
    layers = (python.layer(root), _layer("ours", product_files(source, architecture)))
    return oci.Image(f"{NAME}:{tag}", layers, dockerfile.config({"VERSION": tag}), architecture)


def build_simulated(source: Path, tag: str) -> Path:
    """Build the product image with one more layer, the simulated cards of the checkout; returns the archive."""
    plain = product(source, tag)
    layers = (*plain.layers, _layer("simulated", simulated_files(source)))
    return archive("simulated", oci.Image(f"{SIMULATED}:{tag}", layers, plain.config))


def native(source: Path, architecture: str = oci.ARCHITECTURE) -> None:
    """Build the C programs of a checkout, for Arm with Debian's cross compiler; make skips up-to-date files."""
    command = ["make", "--no-print-directory", "-C", str(source / "vgpu_runtime")]
    if architecture != oci.ARCHITECTURE:
        command += [f"ARCH={MACHINES[architecture]}", *map(str, _native_files(source, architecture).values())]
    subprocess.run(command, check=True, stdout=sys.stderr)


def product_files(source: Path, architecture: str = oci.ARCHITECTURE) -> Mapping[str, Path]:
    """The files of the product by their path in the image, without compiled Python."""
    packages = (*_files(source, "device_plugin"), *_files(source, "vgpu_runtime"))
    return {
        **_native_files(source, architecture),
        **{f"opt/vgpu/{file}": source / file for file in packages if not file.is_relative_to(SIMULATION)},
        "usr/local/bin/vgpu": _HERE / "vgpu",
    }


def simulated_files(source: Path) -> Mapping[str, Path]:
    """The files that the image with simulated cards adds or replaces, by their path in the image."""
    files = (Path("hack/__init__.py"), *_files(source, "hack/simulated"), *_files(source, str(SIMULATION)))
    return {
        "opt/vgpu/build/libsimkfd.so": source / "build/libsimkfd.so",
        **{f"opt/vgpu/{file}": source / file for file in files},
        "usr/local/bin/vgpu": _HERE / "vgpu-simulated",
    }


def copy(files: Mapping[str, Path], folder: Path) -> None:
    """Copy files to their places below `folder`, with their modes."""
    for place, file in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / place)


def _native_files(source: Path, architecture: str) -> Mapping[str, Path]:
    folder = source / "build"
    if architecture != oci.ARCHITECTURE:
        folder /= MACHINES[architecture]
    # The last two are the cluster service's: device_plugin/core/placement/kernel and device_plugin/adapters/name_sums.
    names = (*(file.name for file in (LIBRARY, TELL, SMI, LOADS)), "libvgpu-scores.so", "libvgpu-names.so")
    return {f"opt/vgpu/build/{name}": folder / name for name in names}


def _layer(name: str, files: Mapping[str, Path]) -> Path:
    root = python.tree()

    def fill(folder: Path) -> None:
        copy(files, folder)
        python.compile_all(root, folder, "opt/vgpu")

    return layer(name, fill, root.name, *(part for item in files.items() for part in item))


def _files(source: Path, folder: str) -> list[Path]:
    found = (path for path in sorted((source / folder).rglob("*")) if path.suffix in SUFFIXES)
    return [path.relative_to(source) for path in found]
