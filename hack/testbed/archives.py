"""Archives of images: their lists of images, and the folder of a containerd that has imported them.

An import of the project's images costs a containerd seconds of CPU time. So one containerd imports them, and the
folders of all nodes' containerds are copies of its folder.
"""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hack.testbed.images import cache

# The files in an archive that list its images with the digests of all parts: of OCI, and of `docker save`.
_INDEXES = {"index.json", "manifest.json"}
_CONFIG = """\
version = 3
root = "{root}"
state = "{state}/state"
[grpc]
address = "{state}/socket"
"""


# Seconds for which an unused folder is kept; it has 1 GB, and is copied for all nodes of a cluster within seconds.
UNUSED_SECONDS = 600.0


class ArchiveError(Exception):
    """A file is not an archive of images; the text names the file."""


def index(file: Path) -> bytes:
    """The content of the archive's list of images. Raises ArchiveError if `ctr images import` cannot read the file."""
    try:
        with tarfile.open(file) as archive:
            for entry in archive:
                if entry.name.removeprefix("./") in _INDEXES and (content := archive.extractfile(entry)):
                    return content.read()
    except tarfile.TarError:
        raise ArchiveError(f"{file}: not a tar archive: see hack/image build") from None
    except OSError as error:
        raise ArchiveError(f"{file}: {error.strerror}") from None
    raise ArchiveError(f"{file}: no image in it (no index.json): see hack/image build")


def imported(files: Sequence[Path], programs: Path) -> Path:
    """The folder of a containerd that has imported these archives, from the cache or made now.

    The programs of containerd are in `programs`.
    """
    key = cache.fingerprint(programs.name, *map(index, files))

    def make(root: Path) -> None:
        root.mkdir()
        with tempfile.TemporaryDirectory(prefix="vgpu-") as state:
            _import(files, programs, root, Path(state))

    return cache.keep(cache.folder() / "imported" / f"containerd-{key}", make, UNUSED_SECONDS)


def copy(imported: Path, folder: Path) -> None:
    """Copy `imported` to the new `folder` of a node's containerd; files that containerd never changes are shared."""
    shared = ["--link"] if imported.stat().st_dev == folder.parent.stat().st_dev else []
    subprocess.run(["cp", "--archive", *shared, imported, folder], check=True)
    for database in imported.glob("*/*.db"):
        own = folder / database.relative_to(imported)
        own.unlink()
        shutil.copy(database, own)


def _import(files: Sequence[Path], programs: Path, root: Path, state: Path) -> None:
    (state / "config.toml").write_text(_CONFIG.format(root=root, state=state))
    # containerd also writes to /run, where the machine's own containerd may have files.
    own_run = 'mount -t tmpfs tmpfs /run && exec "$@"'
    program = (f"{programs}/containerd", "--config", f"{state}/config.toml")
    command = ["unshare", "--mount", "sh", "-c", own_run, "sh", *program]
    with (state / "log").open("wb") as log:
        containerd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        ctr = (f"{programs}/ctr", "--address", f"{state}/socket", "--namespace", "k8s.io")
        while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode:
            if containerd.poll() is not None:
                raise ArchiveError(f"containerd ended: {(state / 'log').read_text()}")
        for file in files:
            # --local: the transfer service unpacks with a snapshotter that it chooses itself.
            subprocess.run([*ctr, "images", "import", "--local", str(file)], check=True, capture_output=True)
    finally:
        containerd.terminate()
        containerd.wait()
