"""The real HIP runtime for simulated cards, from Debian's packages: downloaded and unpacked, never installed.

Needs apt-get and dpkg-deb, but no root: packages go into a cache folder, and where the user has no package
lists (or none with HIP) they are fetched into a folder of our own first. apt itself says which packages the
machine lacks: HIP's own always, LLVM (which its code-object library loads) only where it is not installed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

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
_TIMEOUT_SECONDS = 600


class HipUnavailableError(RuntimeError):
    """The HIP runtime cannot be had on this machine; the message says why and what would help."""


def default_cache() -> Path:
    """`$VGPU_CACHE`, or a folder below the user's cache folder."""
    if folder := os.environ.get("VGPU_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vgpu"


def ensure(cache: Path) -> Path:
    """The folder that holds libamdhip64.so.5 and what it needs; fetches it into `cache` the first time.

    Any number of processes may call this at once: the folder appears whole, by one rename. Raises
    HipUnavailableError.
    """
    final = cache / f"hip-{VERSION}"
    if final.is_dir():
        return _library_folder(final)
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise HipUnavailableError(
            f"{' and '.join(missing)} not found: HIP {VERSION} is unpacked from Debian packages"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".hip-", dir=cache) as scratch:
        root = _fetch(Path(scratch))
        _library_folder(root)
        try:
            root.rename(final)
        except OSError:
            if not final.is_dir():  # else another process was first, with the same
                raise
    return _library_folder(final)


def _fetch(scratch: Path) -> Path:
    """Download and unpack into folders below `scratch`; returns the folder that stands for /."""
    options: list[str] = []
    if not _offered():
        options = _options(scratch)
        _run(["apt-get", *options, "--quiet", "update"], scratch, "fetching package lists")
    packages = sorted({*PACKAGES, *_lacking(options, scratch)} - _BASE)
    _run(["apt-get", *options, "--quiet", "download", *packages], scratch, "downloading HIP's packages")
    root = scratch / "root"
    root.mkdir()
    for archive in sorted(scratch.glob("*.deb")):
        name, version, _ = archive.name.split("_")
        if name == PACKAGES[0] and not version.startswith(VERSION):
            raise HipUnavailableError(f"this machine's package lists offer HIP {version}, not {VERSION}")
        _run(["dpkg-deb", "-x", str(archive), str(root)], scratch, f"unpacking {archive.name}")
    root.chmod(0o755)
    return root


def _options(scratch: Path) -> list[str]:
    """Make apt keep its lists and caches below `scratch`."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    settings = {
        "Dir::State": scratch / "state",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def _offered() -> bool:
    """Whether the machine's own package lists name HIP."""
    command = ["apt-cache", "show", "--no-all-versions", PACKAGES[0]]
    return subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS).returncode == 0


def _lacking(options: list[str], scratch: Path) -> list[str]:
    """What apt would install with HIP."""
    command = ["apt-get", *options, "--simulate", "--no-install-recommends", "install", PACKAGES[0]]
    plan = _run(command, scratch, "asking apt what HIP needs")
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _run(command: list[str], folder: Path, doing: str) -> str:
    """Run quietly, for its output. What apt prints names package hosts, so no message of ours quotes it."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, check=True, timeout=_TIMEOUT_SECONDS, text=True
        )
    except subprocess.TimeoutExpired as error:
        raise HipUnavailableError(f"{doing} took longer than {_TIMEOUT_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        raise HipUnavailableError(
            f"{doing} failed with status {error.returncode}; to see why, run {command[0]} yourself"
        ) from None
    return done.stdout


def _library_folder(root: Path) -> Path:
    for library in root.glob(f"usr/lib/*/{LIBRARY}"):
        return library.parent
    raise HipUnavailableError(f"{root} holds no {LIBRARY}; remove it and try again")
