"""The real HIP runtime for simulated cards, from Debian's packages: downloaded and unpacked, never installed.

Packages are unpacked into a cache folder: always those of HIP (PACKAGES), and those that apt says are missing on this
machine. LLVM, which HIP's code-object library loads, is among them only where it is not installed.
"""

import os
from pathlib import Path

from vgpu_runtime.sim import debian

VERSION = "5.2.3"
LIBRARY = "libamdhip64.so.5"
PACKAGES = (
    "libamdhip64-5",
    "libhsa-runtime64-1",
    "libhsakmt1",
    "libamd-comgr2",
    "libdrm2",
    "libdrm-amdgpu1",
    "libnuma1",
    "libelf1",
)
_BASE = {"libc6", "gcc-12-base"}  # a machine that runs apt has them, and its libc must stay the only one


class HipUnavailableError(RuntimeError):
    """The HIP runtime is not available on this machine; the message gives the reason and a cure."""


def default_cache() -> Path:
    """`$VGPU_CACHE`, or a folder below the user's cache folder."""
    if folder := os.environ.get("VGPU_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vgpu"


def present(cache: Path) -> bool:
    """True if the runtime is in the cache, so that `ensure` fetches nothing."""
    return (cache / f"hip-{VERSION}").is_dir()


def ensure(cache: Path) -> Path:
    """The folder with libamdhip64.so.5 and its dependencies; the first call fetches these files into `cache`.

    Any number of processes may call this at once. Raises HipUnavailableError.
    """
    return _library_folder(debian.kept(cache / f"hip-{VERSION}", ".hip-", _fetch))


def _fetch(scratch: Path) -> Path:
    """Download HIP's packages and unpack them below `scratch`; returns the folder that stands for /."""
    root = scratch / "root"
    try:
        apt = debian.Apt(scratch, PACKAGES[0])
        versions = apt.unpack({*PACKAGES, *apt.needs(PACKAGES[0])} - _BASE, root)
    except debian.DebianUnavailableError as error:
        raise HipUnavailableError(str(error)) from None
    if not (offered := versions[PACKAGES[0]]).startswith(VERSION):
        raise HipUnavailableError(f"this machine's package lists offer HIP {offered}, not {VERSION}")
    _library_folder(root)
    return root


def _library_folder(root: Path) -> Path:
    for library in root.glob(f"usr/lib/*/{LIBRARY}"):
        return library.parent
    raise HipUnavailableError(f"{root} holds no {LIBRARY}; remove it and try again")
