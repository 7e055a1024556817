"""Makes root folders of images from Debian packages and their dependencies."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hack.testbed.images import cache
from vgpu_runtime.sim.debian import Apt

_LISTS = Path("/var/lib/apt/lists")
# Folders that no program in a container reads; licences (copyright files) stay.
_UNUSED = ("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug")


def versions(*packages: str, architecture: str = "") -> Mapping[str, str]:
    """The packages and all their dependencies, also libc, with their versions in the machine's package lists.

    `architecture` is Debian's name of an architecture other than this machine's; the lists for it are downloaded. apt,
    which takes seconds, is called once a day, and after each update of the lists.
    """
    asked = cache.fingerprint(
        packages, architecture, time.strftime("%F"), _LISTS.exists() and _LISTS.stat().st_mtime_ns
    )

    def ask(answer: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            apt = Apt(Path(scratch), packages[0], architecture=architecture)
            needs = apt.needs(*packages, bare=True)
        answer.write_text(json.dumps(needs))

    answer = cache.keep(cache.folder() / "versions" / f"{packages[0]}{architecture}-{asked}", ask)
    found: dict[str, str] = json.loads(answer.read_text())
    return found


def unpack(packages: Mapping[str, str], root: Path, architecture: str = "") -> None:
    """Unpack these packages into the new folder `root`, without running their scripts."""
    with tempfile.TemporaryDirectory() as scratch:
        apt = Apt(Path(scratch), next(iter(packages)), architecture=architecture)
        apt.unpack([f"{name}={version}" for name, version in packages.items()], root)
    for name in _UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
