"""Other device plugins: finds which of our resources another plugin serves on this node, and when it has gone.

Two plugins may register one resource with the kubelet. Pods then get devices of the plugin that registered last,
although the cluster may count the devices of the first. Neither plugin notices. So our plugin gives way: it withdraws
the card family on this node. Device IDs show which plugin serves a resource, because ours have a form of their own
(tickets). The number of devices shows nothing, because both plugins see the same cards.

The kubelet knows a plugin by its resource alone. If another plugin has replaced ours, and our process then ends with
its stream, the kubelet drops the other plugin, which does not notice. So our next agent registers the other plugin
again.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Protocol

from device_plugin.core.machine import KubeletError
from device_plugin.core.pods import Node
from device_plugin.core.requests import family_of, resource_names
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.ports import PodResources
from device_plugin.node.slices.records import write_file
from device_plugin.node.slices.tickets import Resource

log = logging.getLogger(__name__)

# Seconds in which every plugin registers again with a kubelet that restarted.
RETURN_SECONDS = 30.0
_MOST_ID = 63


class PluginFolder(Protocol):
    """The kubelet's folder of device plugins."""

    def others(self) -> Collection[str]:
        """The names of the sockets at which other plugins answer."""

    def register(self, socket: str, resource: str) -> None:
        """Register the plugin at this socket for the resource with the kubelet. Raises KubeletError."""


@dataclass(frozen=True)
class _Other:
    """Another plugin that serves a resource: one of its device IDs, and its socket; each is empty if not known."""

    device: str = ""
    socket: str = ""


class OtherPlugins:
    """Our resources that other plugins serve, as the last `look` found them.

    The file `store` keeps these findings over a restart. `node` returns the node as the API server shows it, or None if
    it cannot be read. Only one thread calls `look`; any thread may call the other methods.
    """

    def __init__(
        self,
        kubelet: PodResources,
        folder: PluginFolder,
        node: Callable[[], Node | None],
        store: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubelet = kubelet
        self._folder = folder
        self._node = node
        self._store = store
        self._served: Mapping[str, _Other] = {}
        # Resources of which nothing shows the other plugin any more.
        self._gone = Lasting[str](clock, RETURN_SECONDS)
        self._dropped: set[str] = set()

    def load(self) -> None:
        """Read the other plugins that the previous agent found.

        When that agent ended, the kubelet may have dropped them.
        """
        try:
            found = json.loads(self._store.read_text())
            self._served = {
                str(name): _Other(str(device), str(socket)) for name, (device, socket) in found.items()
            }
        except FileNotFoundError:
            return
        except (OSError, ValueError, AttributeError, TypeError) as error:
            log.warning("%s is not read: %s", self._store, error)
        self._dropped = set(self._served)

    def expect(self, capacity: Mapping[str, str], ours: Iterable[Resource]) -> None:
        """Assume that another plugin serves each of `ours` that has `capacity` on the node before we serve it.

        This finds a plugin whose devices are all unhealthy: the kubelet does not name such devices. No other plugin is
        assumed if whole cards, memory and core groups of a family all have capacity. The kubelet then remembers an
        earlier agent of ours: other plugins have only one of these resources.
        """
        families: dict[str, list[str]] = {}
        for resource in ours:
            families.setdefault(resource.family, []).append(resource.name)
        guessed = {
            name: _Other()
            for family, names in families.items()
            if any(capacity.get(name, "0") == "0" for name in resource_names(family)[:3])
            for name in names
            if capacity.get(name, "0") != "0"
        }
        self._served = {**guessed, **self._served}

    def look(self, ours: Iterable[Resource]) -> None:
        """Find the resources that another plugin serves now: the kubelet shows devices there that are not our tickets.

        A plugin counts as gone after RETURN_SECONDS without a sign of it. A plugin that the kubelet dropped is
        registered again. Changes are written to `store`. Raises KubeletError if the kubelet does not answer.
        """
        shown = self._kubelet.devices()
        served = dict(self._served)
        for resource in ours:
            theirs = sorted(i for i in shown.get(resource.name, ()) if not resource.is_ticket(i))
            if theirs:
                if resource.name not in served:
                    served[resource.name] = _Other(theirs[0][:_MOST_ID], self._only_socket())
                self._gone.note(resource.name, found=False)
                self._dropped.discard(resource.name)
            elif resource.name in served:
                self._restore(resource.name)
                if self._gone.note(resource.name, found=self._no_sign(resource.name)):
                    del served[resource.name]
        if served != self._served:
            self._served = served
            self._keep()

    def serve(self, resource: str) -> bool:
        """True if another plugin serves the resource on this node."""
        return resource in self._served

    def withdrawn(self, family: str) -> bool:
        """True if another plugin serves any resource of the card family: the family is then not offered here."""
        return any(family_of(resource) == family for resource in self._served)

    def problems(self) -> list[str]:
        """A text for each resource that another plugin serves, with what to do."""
        return [
            f"another device plugin serves {resource} on this node{_its(other)}:"
            f" {family_of(resource)} is not offered here while it does, and running slices go on. Remove that plugin,"
            " or take the label vgpu.io/node from this node, or leave the prefix out of `prefixes`"
            for resource, other in sorted(self._served.items())
        ]

    def _keep(self) -> None:
        try:
            write_file(
                self._store, json.dumps({name: astuple(other) for name, other in self._served.items()})
            )
        except OSError as error:
            log.warning("%s cannot be written: %s", self._store, error)

    def _only_socket(self) -> str:
        """The socket of the other plugin that answers; empty if none answers, or several: their sockets look alike."""
        sockets = list(self._folder.others())
        return sockets[0] if len(sockets) == 1 else ""

    def _restore(self, resource: str) -> None:
        """Register the other plugin of a resource again, if the kubelet dropped it and its known socket answers.

        The kubelet may drop the other plugin when our agent ends.
        """
        socket = self._served[resource].socket
        if resource not in self._dropped or socket not in self._folder.others():
            return
        self._dropped.discard(resource)
        try:
            self._folder.register(socket, resource)
        except KubeletError as error:
            log.warning("restart the other device plugin of %s: %s", resource, error)

    def _no_sign(self, resource: str) -> bool:
        """True if no other plugin answers at a socket, or if the node has no capacity of the resource any more.

        A plugin whose devices are all unhealthy still shows both signs: it answers at its socket, and the capacity
        counts its devices. The kubelet drops the capacity of a plugin 5 minutes after its end. If a third plugin
        answers at a socket, only this drop shows that the other plugin of `resource` has gone.
        """
        if not self._folder.others():
            return True
        node = self._node()
        return node is not None and (node.capacity or {}).get(resource, "0") == "0"


def _its(other: _Other) -> str:
    return f" (its device {other.device})" if other.device else ""
