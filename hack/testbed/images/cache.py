"""Caches files and folders under names that end with a hash of their inputs."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from vgpu_runtime.sim.hip import default_cache

DAY_SECONDS = 24 * 3600.0
# Most archives of one kind that are kept in addition to the used one: each change of the product adds 300 MB.
MOST = 8


def folder() -> Path:
    """The folder in which archives of images and their parts are kept."""
    return default_cache() / "images"


def fingerprint(*inputs: object) -> str:
    """A short hash of texts and of files (given as Path: name, mode and content; folders with all below them)."""
    state = hashlib.sha256()
    for thing in (*inputs, Path(__file__).parent):  # the code of these modules is an input too
        if isinstance(thing, Path):
            for file in _files(thing):
                state.update(f"{file.relative_to(thing)} {file.stat().st_mode:o}\0".encode())
                with file.open("rb") as content:
                    state.update(hashlib.file_digest(content, "sha256").digest())
        else:
            state.update(f"{thing!r}\0".encode())
    return state.hexdigest()[:16]


def keep(final: Path, make: Callable[[Path], None], unused_seconds: float = DAY_SECONDS) -> Path:
    """Return the path `final` (…-HASH or …-HASH.tar), after `make(path)` has made it if it is missing.

    The file or folder appears atomically. Siblings with other hashes are removed when they were not used for
    `unused_seconds`, or when MOST others were used later.
    """
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=final.parent) as scratch:
            made = Path(scratch) / "made"
            make(made)
            try:
                made.rename(final)
            except OSError:
                if not final.exists():  # if it exists, another process was first, with equal content
                    raise
    os.utime(final)
    kind = final.name.rpartition("-")[0]
    siblings = [path for path in final.parent.glob(f"{kind}-*") if path.name.rpartition("-")[0] == kind]
    siblings.remove(final)
    for newer, sibling in enumerate(sorted(siblings, key=_last_use, reverse=True)):
        if newer >= MOST or time.time() - _last_use(sibling) > unused_seconds:
            _remove(sibling)
    return final


def _files(start: Path) -> Iterable[Path]:
    if start.is_dir():
        return sorted(path for path in start.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [start]


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return time.time()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
