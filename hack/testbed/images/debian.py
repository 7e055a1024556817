"""Folders that stand for / of an image, with Debian packages and all that they need."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vgpu_runtime.sim.debian import Apt

# Nothing reads these in a container; licences (copyright files) stay.
_UNUSED = ("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug")


def versions(*packages: str) -> Mapping[str, str]:
    """The packages and all that they need down to libc, with the versions that the machine's package lists offer."""
    with tempfile.TemporaryDirectory() as scratch:
        return Apt(Path(scratch), packages[0]).needs(*packages, bare=True)


def unpack(packages: Mapping[str, str], root: Path) -> None:
    """Unpack these packages into the new folder `root`. No script of theirs runs."""
    with tempfile.TemporaryDirectory() as scratch:
        apt = Apt(Path(scratch), next(iter(packages)))
        apt.unpack([f"{name}={version}" for name, version in packages.items()], root)
    for name in _UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
