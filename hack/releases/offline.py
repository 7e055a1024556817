"""OFFLINE.txt: the steps with which a site without a network installs from the archive, and a missing image."""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack.releases.images import SCHEDULER

# The annotation in which containerd keeps an image's full name.
_NAME = "io.containerd.image.name"
_STEPS = """vgpu {version}, for a site without a network

Images of the installation, and the files here that hold them:
{images}

To check the files:
    sha256sum --check SHA256SUMS
{fetch}On every node, for each file that holds an image:
    ctr --namespace k8s.io images import FILE
Once, with the cluster's kubeconfig:
    helm install vgpu vgpu-{version}.tgz -n vgpu-system --create-namespace{tag}

With a registry at the site: push the images there instead of importing them, and add to the last command
    --set global.imageRegistry=REGISTRY
"""
_FETCH = """{image} is not here. On a machine with a network:
    docker pull {image}
    docker save {image} -o {file}
It must not be newer than your API server: for an older one take that one's version instead of {tag}, and add to the
last command --set scheduler.tag=VERSION
"""


class NoSchedulerError(Exception):
    """A file does not have kube-scheduler's image, though it should; the text names the file."""


def text(version: str, scheduler: str, files: Mapping[str, str]) -> str:
    """The text of OFFLINE.txt. `scheduler` is the image of kube-scheduler in the manifests.

    `files` has the name of the file with each image in the archive: of our image, and perhaps of a kube-scheduler of
    another version.
    """
    name, _, tag = scheduler.rpartition(":")
    held = next((image for image in files if image.rpartition(":")[0] == name), None)
    rows = {**({} if held else {scheduler: "not here, see below"}), **files}
    width = max(map(len, rows))
    return _STEPS.format(
        version=version,
        images="\n".join(f"    {image:{width}}  {rows[image]}" for image in sorted(rows)),
        fetch="" if held else _FETCH.format(image=scheduler, file=file_name(scheduler), tag=tag),
        tag="" if held in (None, scheduler) else f" --set scheduler.tag={held.rpartition(':')[2]}",
    )


def file_name(scheduler: str) -> str:
    """The name of the file with this image of kube-scheduler, such as kube-scheduler-v1.36.3.tar."""
    return f"{scheduler.rpartition('/')[2].replace(':', '-')}.tar"


def scheduler_in(archive: Path) -> str:
    """The full name of kube-scheduler's image in this archive. Raises NoSchedulerError."""
    try:
        names = _names(archive)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise NoSchedulerError(f"{archive} is no archive of an image: {error}") from error
    for name in sorted(names):
        if name.rpartition(":")[0] == SCHEDULER:
            return name
    raise NoSchedulerError(f"{archive} has no image {SCHEDULER}, but {', '.join(sorted(names)) or 'none'}")


def _names(archive: Path) -> set[str]:
    """The full names of the images in an archive of docker save or containerd."""
    with tarfile.open(archive) as opened:
        docker = _json(opened, "manifest.json") or []
        oci = _json(opened, "index.json") or {"manifests": []}
    kept = {str((entry.get("annotations") or {}).get(_NAME, "")) for entry in oci["manifests"]}
    return {*(str(name) for image in docker for name in image.get("RepoTags") or ()), *kept} - {""}


def _json(opened: tarfile.TarFile, name: str) -> Any:
    content = opened.extractfile(name) if name in opened.getnames() else None
    return json.loads(content.read()) if content else None
