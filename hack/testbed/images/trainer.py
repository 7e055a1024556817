"""Builds the image of the elastic PyTorch trainer, with only the files of Debian's python3-torch that it needs.

Debian's PyTorch depends on OpenCV and GDAL, and so on 392 packages.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from hack.testbed.images import busybox, cache, debian, oci, ours, python
from hack.testbed.images.layers import archive, layer

TRAINER = "vgpu.io/trainer:0.1.0"
PROGRAM = Path("opt/trainer/train.py")
PACKAGES = ("python3-torch", "busybox-static")
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_MODULES = Path("usr/lib/python3/dist-packages")
# Links that the scripts of Debian's packages would make; these scripts do not run here.
_ALTERNATIVES = {"libblas.so.3": "blas/libblas.so.3", "liblapack.so.3": "lapack/liblapack.so.3"}
# The modules that are loaded by `import torch`, by training and by torchrun.
_NEEDED = ("astunparse", "numpy", "six.py", "torch", "torch-*.egg-info", "typing_extensions.py")
_KEPT = (
    *(str(_MODULES / name) for name in _NEEDED),
    *("usr/lib/python3.11", "usr/bin/python3", "usr/bin/python3.11", "usr/bin/torchrun"),
    *("bin/busybox", "lib64", "usr/share/doc"),
)
_PROGRAMS = ("python3.11", "torch_shm_manager")
# Tests, and files for compiling against PyTorch.
_UNUSED = ("bin/*Test", "bin/test_*", "bin/tutorial_*", "include", "lib/libcaffe2*", "test")
_DROPPED = tuple(f"{_MODULES}/torch/{pattern}" for pattern in _UNUSED)


def build(source: Path) -> Path:
    """Build the image, with the trainer of a checkout; returns the archive."""
    program = {str(PROGRAM): source / "hack/elastic/train.py"}
    layers = (
        python.layer(tree()),
        layer("trainer-program", lambda root: ours.copy(program, root), *program.values()),
    )
    # One thread per rank is enough, because the tests do not measure the speed of training.
    config = {
        "Cmd": ["/bin/busybox", "sleep", "infinity"],
        "Env": ["PATH=/usr/bin:/bin", "OMP_NUM_THREADS=1"],
    }
    return archive("trainer", oci.Image(TRAINER, layers, config))


def tree() -> Path:
    """The image's root folder from the cache; the first time it is made, in two minutes (250 MB of packages)."""
    packages = debian.versions(*PACKAGES)
    final = cache.folder() / "trees" / f"torch-{cache.fingerprint(packages)}"

    def make(root: Path) -> None:
        with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
            whole = Path(scratch) / "whole"
            debian.unpack(packages, whole)
            for name, target in _ALTERNATIVES.items():
                (whole / _LIBRARIES / name).symlink_to(target)
            _move(_needed(whole), whole, root)
        busybox.link_applets(root)
        for name in ("dev", "etc", "proc", "sys", "tmp"):
            (root / name).mkdir(exist_ok=True)
        # A container runtime mounts its own /etc/hosts; this file is for runs without a container runtime.
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "tmp").chmod(0o1777)
        python.compile_all(root, root, "usr/lib/python3.11", str(_MODULES))

    return cache.keep(final, make)


def _needed(whole: Path) -> set[Path]:
    """The paths of all files to keep, with the libraries that they need and the targets of symbolic links."""
    dropped = {path for pattern in _DROPPED for path in whole.glob(pattern)}
    kept = {path for pattern in _KEPT for found in whole.glob(pattern) for path in (found, *found.rglob("*"))}
    kept = {path for path in kept if dropped.isdisjoint((path, *path.parents))}
    programs = [path for path in kept if path.is_file() and (".so" in path.name or path.name in _PROGRAMS)]
    found = {each for path in kept | _linked(whole, programs) for each in _links(path, whole)}
    return {path for path in found if path.exists()}  # some documents are links to files of other packages


def _linked(whole: Path, programs: Iterable[Path]) -> set[Path]:
    """The libraries that the loader loads for these programs and libraries."""
    folders = [whole / "lib/x86_64-linux-gnu", whole / _LIBRARIES, whole / "usr/lib"]
    loader = folders[0] / "ld-linux-x86-64.so.2"
    command = (str(loader), "--library-path", ":".join(map(str, folders)), "--list")
    found = {loader}
    for program in programs:
        listed = subprocess.run([*command, str(program)], check=True, capture_output=True, text=True).stdout
        # NAME => PATH (ADDRESS)
        found |= {Path(line.split()[2]) for line in listed.splitlines() if " => /" in line}
    return found


def _links(path: Path, whole: Path) -> Iterator[Path]:
    """Yield the path; if it is a symbolic link, also its target, and so on."""
    yield path
    while path.is_symlink():
        target = path.readlink()
        target = whole / target.relative_to("/") if target.is_absolute() else path.parent / target
        path = Path(os.path.normpath(target))
        yield path


def _move(paths: Iterable[Path], whole: Path, root: Path) -> None:
    for path in sorted(paths):
        target = root / path.relative_to(whole)
        if path.is_dir() and not path.is_symlink():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
