"""Writes compressed archives; equal content gives equal bytes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

Content = Mapping[str, bytes | Path]


def write(target: Path, content: Content, *, executable: frozenset[str] = frozenset()) -> Path:
    """Write `content` (by path in the archive) as a .tar.gz; paths in `executable` get the mode 0755."""
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, thing in sorted(content.items()):
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if name in executable else 0o644
            if isinstance(thing, Path):
                entry.size = thing.stat().st_size
                with thing.open("rb") as opened:
                    archive.addfile(entry, opened)
            else:
                entry.size = len(thing)
                archive.addfile(entry, io.BytesIO(thing))
    return target
