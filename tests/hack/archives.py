"""Reading OCI archives, and running what is in them."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from tests.requirement import require

PLAIN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Archive:
    """An image's archive; every blob is held to its digest and its size as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        assert json.loads(self._read("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        (self.entry,) = json.loads(self._read("index.json"))["manifests"]
        self.manifest: dict[str, Any] = json.loads(self._checked(self.entry))
        self.image: dict[str, Any] = json.loads(self._checked(self.manifest["config"]))
        self.config: dict[str, Any] = self.image["config"]

    @contextmanager
    def layer(self, descriptor: Mapping[str, Any]) -> Iterator[tarfile.TarFile]:
        """One of the manifest's layers."""
        with self._blob(_place(descriptor)) as content:
            digest = hashlib.sha256(content.read()).hexdigest()
            assert (f"sha256:{digest}", content.tell()) == (descriptor["digest"], descriptor["size"])
            content.seek(0)
            with tarfile.open(fileobj=content) as layer:
                yield layer

    def ours(self) -> AbstractContextManager[tarfile.TarFile]:
        """The highest layer."""
        return self.layer(self.manifest["layers"][-1])

    def unpack(self, root: Path) -> None:
        root.chmod(0o755)
        for descriptor in self.manifest["layers"]:
            # Not tarfile's extractall: its filters came with Python 3.11.4, and without one it warns from 3.12 on.
            with self._blob(_place(descriptor)) as content:
                command = ["tar", "--extract", "--directory", str(root)]
                with subprocess.Popen(command, stdin=subprocess.PIPE) as tar:
                    assert tar.stdin is not None
                    shutil.copyfileobj(content, tar.stdin)
            assert tar.returncode == 0

    def run(self, root: Path, *command: str, user: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command with `root`, where this was unpacked, as /."""
        chroot = ["chroot", *([f"--userspec={user}"] if user and os.geteuid() == 0 else []), str(root)]
        if os.geteuid() != 0:
            chroot = ["unshare", "--map-root-user", *chroot]
        tried = subprocess.run(
            [*chroot[:-1], "/", "true"], env={"PATH": PLAIN_PATH}, check=False, capture_output=True
        )
        require(
            tried.returncode == 0, "needs root or user namespaces: sysctl kernel.unprivileged_userns_clone=1"
        )
        environment = dict(item.split("=", 1) for item in self.config["Env"])
        environment["PATH"] += f":{PLAIN_PATH}"  # to find chroot itself by
        return subprocess.run(
            [*chroot, *command], env=environment, check=False, capture_output=True, text=True, timeout=60
        )

    def _checked(self, descriptor: Mapping[str, Any]) -> bytes:
        content = self._read(_place(descriptor))
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert (digest, len(content)) == (descriptor["digest"], descriptor["size"])
        return content

    def _read(self, name: str) -> bytes:
        with self._blob(name) as content:
            return content.read()

    @contextmanager
    def _blob(self, name: str) -> Iterator[IO[bytes]]:
        with tarfile.open(self._path) as archive:
            content = archive.extractfile(name)
            assert content is not None
            yield content


def _place(descriptor: Mapping[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"
