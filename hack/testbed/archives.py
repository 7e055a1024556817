"""Read the images of archives, before a cluster is started with them."""

import tarfile
from pathlib import Path

# The files that list the images of an archive: OCI's, and that of `docker save`.
_INDEXES = {"index.json", "manifest.json"}


class ArchiveError(Exception):
    """A file is no archive of images; the text names it."""


def check(file: Path) -> None:
    """Raise ArchiveError unless `file` is an archive that `ctr images import` reads."""
    try:
        with tarfile.open(file) as archive:
            if not any(name.removeprefix("./") in _INDEXES for name in archive.getnames()):
                raise ArchiveError(f"{file}: no image in it (no index.json): see hack/image build")
    except tarfile.TarError:
        raise ArchiveError(f"{file}: not a tar archive: see hack/image build") from None
    except OSError as error:
        raise ArchiveError(f"{file}: {error.strerror}") from None
