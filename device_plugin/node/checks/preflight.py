"""Preflight: checks that the machine has what the agent needs, and that no other plugin serves our resources.

Each problem is logged and posted once, and again if it comes back.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from device_plugin.core.contract.events import Event
from device_plugin.core.pods import Node
from device_plugin.core.versions import LEAST_KUBERNETES, minor_version
from device_plugin.node.api import NodeApi

log = logging.getLogger(__name__)

LEAST_CONTAINERD, LEAST_CRIO = (1, 7), (1, 28)
# From this version on containerd has CDI on if its configuration does not say otherwise.
CDI_CONTAINERD = (2, 0)


class Preflight:
    """Checks the node. Problems are logged, posted as events on the node, and held in `problems` for /readyz."""

    def __init__(
        self, api: NodeApi, cdi: Path, state: Path, kubelet: Path, problems: Callable[[], Iterable[str]]
    ) -> None:
        self._api = api
        self._folders = {"cdiDir": cdi, "stateDir": state}
        self._kubelet = kubelet
        self._problems = problems
        self._said: set[str] = set()
        self._posted: set[str] = set()
        self._hinted = False
        self.problems: tuple[str, ...] = ()

    def check(self) -> bool:
        """Check folders, other plugins and, if the node can be read, its versions; returns true if there is no problem.

        New problems are logged and posted.
        """
        node = self._api.node()
        found = [*self._local(), *(_versions(node) if node else ())]
        self.problems = tuple(found)
        if node is not None and not self._hinted:
            self._hinted = True
            _hint(node)
        if node is not None:  # a problem that was gone is reported again
            self._said &= set(found)
            self._posted &= set(found)
        for problem in found:
            if problem not in self._said:
                self._said.add(problem)
                log.error("preflight: %s", problem)
            if node is not None and problem not in self._posted:
                self._posted.add(problem)
                self._api.node_event(Event.PREFLIGHT, problem)
        return not found

    def _local(self) -> Iterator[str]:
        for setting, folder in self._folders.items():
            if not os.access(folder, os.W_OK):
                yield f"{setting} {folder} cannot be written: mount it into the agent's pod"
        if problem := self._runs_nothing():
            yield problem
        yield from self._problems()
        if not (self._kubelet / "pod-resources").is_dir():
            yield (
                f"no folder pod-resources in {self._kubelet}: mount the kubelet's there, which lies in its --root-dir"
                " (the parameter kubeletRootDir)"
            )

    def _runs_nothing(self) -> str:
        with suppress(OSError):
            return not_executable(self._folders["stateDir"])
        return ""  # a folder that is not there cannot be written either


def _versions(node: Node) -> Iterator[str]:
    if (kubelet := minor_version(node.kubelet)) and kubelet < LEAST_KUBERNETES:
        wanted = ".".join(map(str, LEAST_KUBERNETES))
        yield f"kubelet {node.kubelet} is too old: upgrade the node to v{wanted} or newer"
    name, _, version = node.runtime.partition("://")
    least: Mapping[str, tuple[int, int]] = {"containerd": LEAST_CONTAINERD, "cri-o": LEAST_CRIO}
    if name in least and (runtime := minor_version(version)) and runtime < least[name]:
        wanted = ".".join(map(str, least[name]))
        yield f"{name} {version} has no CDI: upgrade it to {wanted} or newer"


def _hint(node: Node) -> None:
    """Log that containerd may have CDI off.

    This is no problem for /readyz, because the agent cannot read the setting.
    """
    name, _, version = node.runtime.partition("://")
    if (
        name == "containerd"
        and (runtime := minor_version(version))
        and LEAST_CONTAINERD <= runtime < CDI_CONTAINERD
    ):
        log.warning(
            "containerd %s has CDI off by default, and containers then start without their cards: see that its"
            " configuration has enable_cdi = true",
            version,
        )


def not_executable(state: Path) -> str:
    """The problem of a state folder that is mounted noexec, with its cure; empty if the folder is not mounted so.

    Programs in a container cannot load the library from such a folder, and then have no limit.
    """
    if not os.statvfs(state).f_flag & os.ST_NOEXEC:
        return ""
    return (
        f"stateDir {state} is mounted noexec on the node, and containers could not load the library that limits them:"
        " remount it with exec, or choose another folder (stateDir, and the hostPath of the DaemonSet)"
    )
