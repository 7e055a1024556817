"""The vendor's own files and devices on the node that all containers of a card family get: the setting `mounts`.

The software of some vendors (Hygon's /opt/hyhal) belongs to the driver's version: it is installed on the node, and
their images expect it there. A runtime ends a container for good if a mount has no source, so what is not on the node
is left out, and logged. The agent sees of the node what its own pod mounts.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from device_plugin.core.machine import DeviceNode, Mount
from device_plugin.node.vendors.port import Machine
from vgpu_runtime import paths

CARD_NODE = "/dev/dri/cardN"
"""The path in the setting that stands for the primary DRM node of each granted card."""
MOST_MOUNTS = 16
LONGEST_MOUNT = 255
TAKEN = (
    *("/dev", "/proc", "/sys", "/run", "/var/run", "/var/lib/kubelet", "/etc/ld.so.preload"),
    paths.CONTAINER_VDEV_FOLDER,
    *(str(PurePosixPath(path).parent) for path in (paths.CONTAINER_CONFIG, paths.CONTAINER_LIBRARY)),
    "/opt/vgpu",
)
"""Paths at, above or below which a mount would hide our own files, or show a container files of the kernel or the node.

In /opt/vgpu of its image lies the agent, which has each of these mounts in its own container too.
"""


class HostStack:
    """The files at the absolute `wanted` paths, each at the same path in the container, read-only."""

    def __init__(self, machine: Machine, wanted: Sequence[str] = ()) -> None:
        self._machine = machine
        self._files = [path for path in wanted if path != CARD_NODE]
        self._card_nodes = CARD_NODE in wanted

    def mounts(self) -> list[Mount]:
        """The mounts of the wanted files that are on the node now."""
        return [mount for path in self._files if (mount := self._machine.host_file(path))]

    def missing(self) -> list[str]:
        """The wanted paths that are not on the node now."""
        return [path for path in self._files if not self._machine.host_file(path)]

    def devices(self, pcis: Iterable[str]) -> Iterator[DeviceNode]:
        """The primary nodes of the cards at these PCI addresses, if they are wanted."""
        for pci in pcis if self._card_nodes else ():
            for path in self._machine.matching(f"sys/bus/pci/devices/{pci}/drm/card*"):
                yield self._machine.device(f"dev/dri/{path.rpartition('/')[2]}")


def problem(path: str, state: str) -> str:
    """The reason why a setting cannot name this path, as text; empty if it can. `state` is the agent's folder."""
    if path == CARD_NODE:
        return ""
    if not path.startswith("/") or os.path.normpath(path) != path or path.startswith("//"):
        return "write an absolute path without . or .. and without a slash at its end"
    if len(path) > LONGEST_MOUNT or not path.isprintable() or set(path) & set(" :*?["):
        return f"write at most {LONGEST_MOUNT} characters, and none of space : * ? ["
    for taken in (*TAKEN, state):
        if _overlap(PurePosixPath(path), PurePosixPath(taken)):
            return f"it is at, above or below {taken}, which is not for containers; of /dev only {CARD_NODE}"
    return ""


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
