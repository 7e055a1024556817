"""Writes images as OCI archives, which `ctr images import` and `docker load` read; equal files give equal bytes."""

import hashlib
import io
import json
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TYPES = "application/vnd.oci.image"
ARCHITECTURE = "amd64"


@dataclass(frozen=True)
class Image:
    """A container image: its full name with the tag, its layers from the lowest up (tar files), and its settings.

    `architecture` is Go's name of the image's architecture.
    """

    reference: str
    layers: Sequence[Path]
    config: Mapping[str, object]
    architecture: str = ARCHITECTURE


def write_layer(tree: Path, target: Path) -> None:
    """Write a layer of all files below `tree`; root owns the files, only the owner may write, and times are 0."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as layer:
        for path in sorted(tree.rglob("*")):
            entry = layer.gettarinfo(path, str(path.relative_to(tree)))
            if entry.islnk():  # a second name of a file: store the content again
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            entry.mode = _mode(entry)
            if entry.isreg():
                with path.open("rb") as content:
                    layer.addfile(entry, content)
            else:
                layer.addfile(entry)


def write_archive(image: Image, target: Path, *others: Image) -> None:
    """Write the image into one file; `others` are the same image for other architectures."""
    manifests = [_Manifest.of(each) for each in (image, *others)]
    if others:
        listed = [{**manifest.descriptor, "platform": manifest.platform} for manifest in manifests]
        whole = _json({"schemaVersion": 2, "mediaType": f"{_TYPES}.index.v1+json", "manifests": listed})
        entry, blobs = _descriptor("index.v1+json", whole), [whole]
    else:
        entry, blobs = manifests[0].descriptor, []
    names = {
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPES}.index.v1+json",
        "manifests": [{**entry, "annotations": names}],
    }
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(index))
        for blob in (*blobs, *(blob for each in manifests for blob in (each.content, each.config))):
            _add(archive, _blob(_digest(blob)), blob)
        for layer in {layer.digest: layer for each in manifests for layer in each.layers}.values():
            entry_of_layer = tarfile.TarInfo(_blob(layer.digest))
            entry_of_layer.size = layer.size
            with layer.path.open("rb") as content:
                archive.addfile(entry_of_layer, content)


@dataclass(frozen=True)
class _Manifest:
    """The manifest of an image as text, with the config and the layers to which it refers."""

    content: bytes
    config: bytes
    layers: "Sequence[_File]"
    platform: Mapping[str, str]

    @property
    def descriptor(self) -> dict[str, object]:
        return _descriptor("manifest.v1+json", self.content)

    @classmethod
    def of(cls, image: Image) -> "_Manifest":
        layers = [_File.of(layer) for layer in image.layers]
        platform = {"architecture": image.architecture, "os": "linux"}
        rootfs = {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
        config = _json({**platform, "config": image.config, "rootfs": rootfs})
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPES}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [
                {"mediaType": f"{_TYPES}.layer.v1.tar", "digest": layer.digest, "size": layer.size}
                for layer in layers
            ],
        }
        return cls(_json(manifest), config, layers, platform)


@dataclass(frozen=True)
class _File:
    path: Path
    digest: str
    size: int

    @classmethod
    def of(cls, path: Path) -> "_File":
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return cls(path, f"sha256:{digest}", path.stat().st_size)


def _mode(entry: tarfile.TarInfo) -> int:
    """The mode of a file in the layer; it does not depend on the umask under which the file was unpacked."""
    if entry.issym():
        return 0o777
    if entry.isdir():
        return 0o1777 if entry.mode & stat.S_ISVTX else 0o755
    return 0o755 if entry.mode & stat.S_IXUSR else 0o644


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": f"{_TYPES}.{kind}", "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
