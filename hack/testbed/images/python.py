"""Makes an image's root folder with Debian's Python and the locked packages, for this machine or for Arm (arm64)."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.testbed.images import cache, debian, oci
from vgpu_runtime.paths import SOURCES

LOCK = SOURCES.parent / "requirements" / "run.lock"
PACKAGES = Path("opt/vgpu/packages")
VERSION = "3.11"
_PYTHON = f"python{VERSION}"
_STANDARD_LIBRARY = f"usr/lib/{_PYTHON}"
# The architecture's name for Debian, and pip's options for Arm's wheels of Linux.
ARM = "arm64"
_ARM_WHEELS = (
    f"--python-version={VERSION}",
    *(f"--platform={tag}_aarch64" for tag in ("manylinux2014", "manylinux_2_28")),
)
DEBIAN = (_PYTHON, "libstdc++6")  # gRPC's wheel needs a C++ library; other wheels include it
PIP = (
    *("install", "--quiet", "--root-user-action=ignore"),
    *("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"),
)


def tree(architecture: str = oci.ARCHITECTURE) -> Path:
    """The root folder from the cache; the first time it is made, in about a minute."""
    other = "" if architecture == oci.ARCHITECTURE else architecture
    packages = debian.versions(*DEBIAN, architecture=other)
    final = cache.folder() / "trees" / f"python{other}-{cache.fingerprint(packages, LOCK)}"

    def make(root: Path) -> None:
        debian.unpack(packages, root, other)
        # A Python for another architecture does not run here; this machine's tree has the same version.
        runs = tree() if other else root
        specification = importlib.util.find_spec("pip")
        if specification is None or not specification.submodule_search_locations:
            raise ModuleNotFoundError(f"pip, for {sys.executable}")
        pip = specification.submodule_search_locations[0]
        wheels = _ARM_WHEELS if other else ()
        run(runs, pip, *PIP, *wheels, "--target", str(root / PACKAGES), "--requirement", str(LOCK))
        _drop_unused(root / PACKAGES)
        compile_all(runs, root, _STANDARD_LIBRARY, str(PACKAGES))

    return cache.keep(final, make)


def _drop_unused(packages: Path) -> None:
    """Remove tests of packages, and their commands, which contain the path of this machine's Python."""
    for folder in [path for path in packages.rglob("tests") if path.is_dir()]:
        shutil.rmtree(folder)
    shutil.rmtree(packages / "bin")
    for record in packages.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")))


def layer(root: Path) -> Path:
    """The path of a layer with the root folder."""
    return cache.keep(
        cache.folder() / "layers" / f"{root.name}.tar", lambda target: oci.write_layer(root, target)
    )


def compile_all(root: Path, files: Path, *folders: str) -> None:
    """Compile these folders below the root folder `files`, with the Python in the root folder `root`."""
    mode = ("--invalidation-mode", "unchecked-hash", "-s", str(files), "-p", "/")
    run(root, "-m", "compileall", "-qq", *mode, *(str(files / folder) for folder in folders))


def run(root: Path, *arguments: str) -> None:
    """Run the Python in the root folder `root` with its own loader and libc, so that any machine can run it."""
    libraries = [str(root / parent / "x86_64-linux-gnu") for parent in ("lib", "usr/lib")]
    loader = [f"{libraries[0]}/ld-linux-x86-64.so.2", "--library-path", ":".join(libraries)]
    # A fixed hash seed, because hashes decide the order of a set's members in a compiled file.
    environment = {**os.environ, "PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0"}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    command = [*loader, str(root / "usr/bin" / _PYTHON), "-B", *arguments]
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
