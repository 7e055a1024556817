"""Advertise: offers every resource to the kubelet, with its tickets and their health, also after the kubelet restarts.

The kubelet deletes all plugin sockets when it restarts, and an old plugin process that exits disconnects its successor.
So the agent serves again whenever its socket is gone, and registers again whenever the kubelet has a new socket or the
kubelet reads no stream of our tickets.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from device_plugin.core.contract.cards import Card
from device_plugin.core.machine import KubeletError
from device_plugin.node.checks.other_plugins import OtherPlugins
from device_plugin.node.ports import Plugin
from device_plugin.node.slices.records import Records, ticket_use
from device_plugin.node.slices.tickets import Resource, resources, unhealthy
from device_plugin.node.stages.allocate import ContainerStarts

log = logging.getLogger(__name__)

# Seconds after Allocate in which a container may start, pulling its image; only then it has a record. The kubelet is
# not asked: a List outside of PreStartContainer could make it hand out tickets twice (kubernetes#137534).
PULL_SECONDS = 1800.0
# Seconds that a registered kubelet may take to open its stream before we register again.
STREAM_SECONDS = 3.0
# The reason for not serving at each start, which is no fault; then one for a kubelet that does not open its stream.
WAITING = "registered; waiting for the kubelet to listen"
SILENT = f"registered again, because the kubelet did not listen for {STREAM_SECONDS:g} s: see its log"
# Seconds between questions to the kubelet about other plugins' devices: a few milliseconds of CPU with 8 cards.
OTHERS_SECONDS = 10.0


class Advertiser:
    """Runs one device plugin for each resource. Call `step` about every half second."""

    def __init__(
        self,
        make: Callable[[str], Plugin],
        socket: Path,
        records: Records,
        starts: ContainerStarts,
        others: OtherPlugins,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._socket = socket
        self._records = records
        self._starts = starts
        self._others = others
        self._looked = -OTHERS_SECONDS
        self._clock = clock
        # By name: the resources of our cards, and our plugins for those that no other plugin serves.
        self._resources: Mapping[str, Resource] = {}
        self._plugins: dict[str, Plugin] = {}
        self._registered: tuple[int, int] | None = None
        self._since = 0.0
        self._silent = False
        self._said = ""
        self.why_not = "not registered with the kubelet yet"

    @property
    def serving(self) -> bool:
        """True while the kubelet reads the tickets (device IDs) of every resource that the agent offers."""
        return not self.why_not

    def step(self, cards: Sequence[Card]) -> None:
        """Start the plugins, register them, and send their tickets (device IDs), as far as that is needed now.

        `why_not` is the reason why a resource is not served, as text; a new reason is logged.
        """
        try:
            self._resources = {resource.name: resource for resource in resources(cards)}
            if self._clock() - self._looked >= OTHERS_SECONDS:
                with contextlib.suppress(KubeletError):  # then no plugin is registered; we ask before we do
                    self._look()
            self._resize()
            self._update(cards)
            self._connect()
            self.why_not = ""
        except KubeletError as error:
            self.why_not = str(error)
        if self.why_not != self._said:
            self._said = self.why_not
            log.log(
                logging.INFO if self.why_not in ("", WAITING) else logging.WARNING,
                "%s",
                self.why_not or "registered with the kubelet",
            )

    def stop(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()
        self._plugins.clear()

    def _look(self) -> None:
        """Find the resources that other plugins serve now, and stop our own plugins of these resources.

        A resource that is ours again gets a new plugin. A plugin of ours that was replaced keeps an open stream to the
        kubelet, and sends nothing more on it: the kubelet knows plugins by their resource alone, so it would end the
        other plugin if we closed the stream.
        """
        self._looked = self._clock()
        before = {name for name in self._plugins if self._others.serve(name)}
        self._others.look(self._resources.values())
        for name, plugin in list(self._plugins.items()):
            theirs = self._others.serve(name)
            if (theirs and not plugin.streaming) or (name in before and not theirs):
                self._plugins.pop(name).stop()

    def _resize(self) -> None:
        """Make a plugin for each new resource, and stop the plugins of resources without a card."""
        for name in self._plugins.keys() - self._resources.keys():
            self._plugins.pop(name).stop()
        for name in self._resources:
            if name not in self._plugins and not self._others.serve(name):
                self._plugins[name] = self._make(name)
                self._registered = None

    def _update(self, cards: Sequence[Card]) -> None:
        sick = [card for card in cards if not card.healthy]
        for name, plugin in self._ours().items():
            resource = self._resources[name]
            bad: Collection[str] = ()
            tickets: Iterable[str] = resource.tickets()
            withdrawn = self._others.withdrawn(resource.family)
            if sick or withdrawn:
                granted = ticket_use(self._records.all(), name)
                held = self._starts.given(name, PULL_SECONDS).union(*granted.values())
                bad = unhealthy(resource, sick, granted, held)
                # Without its tickets a container could not be started again.
                tickets = sorted(held) if withdrawn else tickets
            plugin.update({ticket: ticket not in bad for ticket in tickets})

    def _ours(self) -> Mapping[str, Plugin]:
        """The plugins of the resources that no other plugin serves."""
        return {name: plugin for name, plugin in self._plugins.items() if not self._others.serve(name)}

    def _connect(self) -> None:
        kubelet = kubelet_identity(self._socket)
        if kubelet is None:
            self._registered = None
            raise KubeletError(f"no kubelet at {self._socket}: waiting for it, see that the kubelet runs")
        plugins = self._ours().values()
        missing = [plugin for plugin in plugins if not plugin.serving]
        for plugin in missing:
            plugin.start()
        silent = not all(plugin.streaming for plugin in plugins)
        late = self._clock() - self._since > STREAM_SECONDS
        if missing or self._registered != kubelet or (silent and late):
            # Registering takes a resource away from any other plugin that serves it, so look first.
            self._look()
            self._silent = not missing and self._registered == kubelet
            for plugin in self._ours().values():
                plugin.register()
            self._registered = kubelet
            self._since = self._clock()
        if silent or missing:
            raise KubeletError(SILENT if self._silent else WAITING)
        self._silent = False


def kubelet_identity(socket: Path) -> tuple[int, int] | None:
    """Inode and change time of the kubelet's socket, which differ after a restart; None if there is no socket."""
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
