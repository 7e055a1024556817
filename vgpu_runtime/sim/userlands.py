"""Userlands of other releases of Debian with newer HIP: each unpacked into a folder of the cache, never installed.

HIP of such a release may need a newer libc than this machine has. So the folder has everything that HIP needs. A
program is started by the dynamic loader of that folder (`Root.command`), or with the folder as its root.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgpu_runtime.sim import debian
from vgpu_runtime.sim.hip import HipUnavailableError


@dataclass(frozen=True, slots=True)
class Userland:
    """The HIP of a release of Debian. Packages that this release lacks are from the release `beside`."""

    hip: str
    release: str
    package: str
    library: str
    beside: str = ""
    moving: bool = True
    """True for a release that is still changed: the version of its HIP may be gone at any time."""


USERLANDS: Mapping[str, Userland] = {
    userland.hip: userland
    for userland in (
        Userland("5.7.1", "trixie", "libamdhip64-5", "libamdhip64.so.5", moving=False),
        Userland("6.4.3", "forky", "libamdhip64-6", "libamdhip64.so.6"),
        Userland("7.2.4", "experimental", "libamdhip64-7", "libamdhip64.so.7", beside="sid"),
    )
}


@dataclass(frozen=True, slots=True)
class Root:
    """The folder that stands for / of a userland."""

    userland: Userland
    folder: Path

    @property
    def loader(self) -> Path:
        """The dynamic loader of the userland's libc."""
        return self._only("usr/lib/*/ld-linux-*.so.*")

    @property
    def libraries(self) -> Path:
        """The userland's folder with HIP and its dependencies."""
        return self._only(f"usr/lib/*/{self.userland.library}").parent

    def command(self, *words: str | Path) -> list[str]:
        """The command that runs a program of this machine, with these arguments, on the userland's libraries."""
        return [str(self.loader), "--library-path", str(self.libraries), *map(str, words)]

    def _only(self, pattern: str) -> Path:
        for path in self.folder.glob(pattern):
            return path
        raise HipUnavailableError(f"{self.folder} holds no {pattern}; remove it and try again")


def ensure(cache: Path, userland: Userland) -> Root:
    """The userland's folder in `cache`; the first call downloads up to 80 MB, which take 300 MB of disk.

    Any number of processes may call this at once. Raises HipUnavailableError.
    """
    name = f"hip-{userland.hip}-{userland.release}"
    return Root(userland, debian.kept(cache / name, ".hip-", functools.partial(_fetch, userland)))


def _fetch(userland: Userland, scratch: Path) -> Path:
    """Download the userland's packages and unpack them below `scratch`; returns the folder that is its root (/)."""
    folder = scratch / "root"
    try:
        apt = debian.Apt(scratch, userland.package, userland.release, beside=userland.beside)
        needed = apt.needs(userland.package, bare=True)
        if not (offered := needed.get(userland.package, "none")).startswith(userland.hip):
            raise HipUnavailableError(f"Debian {userland.release} has HIP {offered}, not {userland.hip}")
        apt.unpack((f"{name}={version}" for name, version in needed.items()), folder)
    except debian.DebianUnavailableError as error:
        raise HipUnavailableError(f"HIP {userland.hip} of Debian {userland.release}: {error}") from None
    for name in ("lib", "lib64"):  # links of another package
        if not (folder / name).exists():
            (folder / name).symlink_to(f"usr/{name}")
    root = Root(userland, folder)
    _ = root.loader, root.libraries
    return folder
