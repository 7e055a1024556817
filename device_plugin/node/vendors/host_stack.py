"""The vendor's own files and devices on the node that all containers of a card family get.

These are the vendor's defaults, and the files that the setting `mounts` adds. The software of some vendors (Hygon's
/opt/hyhal) belongs to the driver's version: it is installed on the node, and these vendors' images expect it at the
same path, or at another one. A runtime ends a container for good if the source of a mount is missing, so missing files
are left out. The agent sees only those files of the node that its own pod mounts.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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

/opt/vgpu of the agent's image has the agent itself, and its own container has each of these mounts too.
"""


class HostStack:
    """Gives containers the node's files at the vendor's `defaults` and at the `wanted` paths, read-only.

    Each path is HOST, or HOST:CONTAINER where the container has the file at another path. If a default and a wanted
    path name one path in the container, the wanted file is mounted there.
    """

    def __init__(self, machine: Machine, wanted: Sequence[str] = (), defaults: Sequence[str] = ()) -> None:
        self._machine = machine
        self._wanted = _by_place(wanted)
        self._files = _by_place(defaults) | self._wanted
        self._card_nodes = CARD_NODE in (*wanted, *defaults)

    def mounts(self) -> list[Mount]:
        """The mounts of the files that are on the node now, read-only."""
        found = ((self._machine.host_file(host), inside) for inside, host in self._files.items())
        return [replace(mount, path=inside) for mount, inside in found if mount]

    def missing(self) -> list[str]:
        """The wanted paths that do not exist on the node now.

        Defaults of the vendor are not listed: they are optional.
        """
        return [host for host in self._wanted.values() if not self._machine.host_file(host)]

    def devices(self, pcis: Iterable[str]) -> Iterator[DeviceNode]:
        """The primary DRM nodes of the cards at these PCI addresses; empty unless the settings ask for these nodes.

        The entry CARD_NODE asks for them, in the setting `mounts` or in the vendor's defaults.
        """
        for pci in pcis if self._card_nodes else ():
            for path in self._machine.matching(f"sys/bus/pci/devices/{pci}/drm/card*"):
                yield self._machine.device(f"dev/dri/{path.rpartition('/')[2]}")


def problem(wanted: str, state: str) -> str:
    """The reason why the setting `mounts` cannot have the entry `wanted`, as text; empty if it can.

    `state` is the agent's stateDir.
    """
    if wanted == CARD_NODE:
        return ""
    if ":" not in wanted:
        return _path_problem(wanted, state)
    found = ((path, _path_problem(path, state)) for path in _paths(wanted))
    return next((f"{path!r}: {why}" for path, why in found if why), "")


def _by_place(wanted: Iterable[str]) -> dict[str, str]:
    """The node's paths in these entries of `mounts`, by their paths in the container; CARD_NODE is left out."""
    pairs = (_paths(path) for path in wanted if path != CARD_NODE)
    return {inside: host for host, inside in pairs}


def _paths(wanted: str) -> tuple[str, str]:
    """The path on the node and the path in the container that an entry of `mounts` names; often they are equal."""
    host, colon, inside = wanted.partition(":")
    return host, inside if colon else host


def _path_problem(path: str, state: str) -> str:
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
