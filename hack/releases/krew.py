"""Makes the archives of `kubectl vgpu` for krew, one per architecture, and their manifest.

An archive has the product's Python code, the locked packages of the extra `cli`, and a program that starts the code
with the machine's Python. It has packages with compiled parts once per version of Python.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hack.releases import tarballs
from hack.testbed.images import cache, ours
from vgpu_runtime.paths import SOURCES

PROJECT = SOURCES.parent
LOCK = PROJECT / "requirements/cli.lock"
TEMPLATE = Path(__file__).with_name("krew.yaml")
PYTHONS = ("3.11", "3.12", "3.13")
PROGRAMS = ("kubectl-vgpu", "kubectl_complete-vgpu")
# Replaces the scripts that pip would make, which contain the path of a Python.
MAIN = b"""import sys
from pathlib import Path

sys.argv[:2] = [str(Path(__file__).with_name(sys.argv[1]))]
if sys.argv[0].endswith("kubectl-vgpu"):
    from device_plugin.__main__ import main
else:
    from device_plugin.wiring.completion import main
sys.exit(main())
"""
LAUNCHER = Path(__file__).with_name("kubectl-vgpu")
_PIP = (
    *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"),
    *("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"),
)


def archive(target: Path, architecture: str) -> Path:
    """Write the archive for an architecture (amd64, arm64), and return its path. Raises CalledProcessError."""
    found: dict[str, bytes | Path] = dict.fromkeys(PROGRAMS, LAUNCHER)
    product = ours.product_files(PROJECT)
    for place, file in product.items():
        name = place.removeprefix("opt/vgpu/")
        if place.startswith("opt/vgpu/") and file.suffix in ours.SUFFIXES:
            found[name] = file
    packages = _packages(architecture)
    found |= {str(file.relative_to(packages)): file for file in packages.rglob("*") if file.is_file()}
    return tarballs.write(target, {**found, "main.py": MAIN}, executable=frozenset(PROGRAMS))


def manifest(version: str, url: str, archives: Mapping[str, Path]) -> str:
    """The text of the plugin's manifest; `archives` are by architecture, and will be at addresses below `url`."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("{version}", version).replace("{homepage}", url)
    for architecture, file in archives.items():
        text = text.replace(f"{{uri-{architecture}}}", f"{url}/{file.name}")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        text = text.replace(f"{{sha256-{architecture}}}", digest)
    return text


def _packages(architecture: str) -> Path:
    """A folder with the subfolder `packages` for all versions of Python, and `packages-VERSION` for each version."""

    def make(root: Path) -> None:
        root.mkdir()
        for python in PYTHONS:
            _install(root / f"packages-{python}", architecture, python)
        share(root)

    key = cache.fingerprint(LOCK, architecture, PYTHONS)
    return cache.keep(cache.folder() / "trees" / f"cli{architecture}-{key}", make)


def _install(folder: Path, architecture: str, python: str) -> None:
    machine = ours.MACHINES[architecture]
    platforms = [f"--platform={tag}_{machine}" for tag in ("manylinux2014", "manylinux_2_28")]
    options = [*platforms, f"--python-version={python}", f"--target={folder}", f"--requirement={LOCK}"]
    subprocess.run([sys.executable, *_PIP, *options], check=True, stdout=sys.stderr)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for unused in [
        path for path in folder.rglob("*") if path.is_dir() and path.name in ("tests", "__pycache__")
    ]:
        shutil.rmtree(unused, ignore_errors=True)


def share(root: Path) -> None:
    """Move each package that is equal for all versions of Python to the subfolder `packages`."""
    folders = [root / f"packages-{python}" for python in PYTHONS]
    shared = root / "packages"
    shared.mkdir()
    for thing in sorted(folders[0].iterdir()):
        digests = {_digest(folder / thing.name) for folder in folders}
        if len(digests) == 1:
            for folder in folders[1:]:
                _remove(folder / thing.name)
            thing.rename(shared / thing.name)


def _digest(thing: Path) -> str:
    if not thing.exists():
        return "none"
    files = sorted(path for path in (thing.rglob("*") if thing.is_dir() else [thing]) if path.is_file())
    state = hashlib.sha256()
    for file in files:
        state.update(f"{file.relative_to(thing)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def _remove(thing: Path) -> None:
    if thing.is_dir():
        shutil.rmtree(thing)
    else:
        thing.unlink()
