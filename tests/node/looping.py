"""The agent's whole loop in virtual time: its kubelet, other plugins and processes do what the test says."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from device_plugin.core.contract.cards import Card, Inventory, ReportedSlice
from device_plugin.core.machine import DeviceHealth, KubeletError
from device_plugin.node.checks.covered import CoveredSlices
from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.idle_pods import IdlePods
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS, KernelChecks
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.other_plugins import OtherPlugins
from device_plugin.node.checks.preflight import Preflight
from device_plugin.node.checks.render_scan import RenderScan
from device_plugin.node.checks.rivals import Rivals
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.checks.unenforced import UnenforcedSlices
from device_plugin.node.slices.records import Record
from device_plugin.node.stages.advertise import Advertiser
from device_plugin.node.stages.agent import TURN_SECONDS, AgentLoop
from device_plugin.node.stages.drivers import Drivers
from device_plugin.node.stages.meter import Meter
from device_plugin.node.stages.publish import Publisher
from device_plugin.node.vendors.port import NodeSigns
from tests.node.parts import Parts, Peer
from vgpu_runtime.sim import records as driver

COVER = "50 10 0:99 / /usr/local/vgpu rw - tmpfs tmpfs rw"


class Plugin:
    """A plugin whose kubelet listens as soon as it is told of it, unless `deaf`."""

    def __init__(self) -> None:
        self.serving = self.streaming = self.deaf = False
        self.starts = self.registrations = 0
        self.devices: Mapping[str, bool] = {}

    def start(self) -> None:
        self.serving, self.streaming = True, False
        self.starts += 1

    def register(self) -> None:
        if not self.serving:
            raise KubeletError("the kubelet found no socket")
        self.registrations += 1
        self.streaming = not self.deaf

    def update(self, devices: Mapping[str, bool]) -> None:
        self.devices = devices

    def stop(self) -> None:
        self.serving = self.streaming = False


class Driver:
    """A DRA driver that the kubelet registers as soon as it starts, unless `refusal` says why not."""

    def __init__(self) -> None:
        self.serving = self.registered = False
        self.refusal = ""
        self.devices: Mapping[str, DeviceHealth] = {}

    def update(self, devices: Mapping[str, DeviceHealth]) -> None:
        self.devices = devices

    def start(self) -> None:
        self.serving, self.registered = True, not self.refusal

    def stop(self) -> None:
        self.serving = self.registered = False


class Shown:
    """Holds the cards that ResourceSlices show."""

    def __init__(self) -> None:
        self.cards: Sequence[Card] = ()
        self.why_not = ""

    def step(self, cards: Sequence[Card]) -> None:
        self.cards = cards


class Folder:
    """The kubelet's folder, with the sockets that the test puts there."""

    def __init__(self) -> None:
        self.sockets: list[str] = []
        self.registered: list[tuple[str, str]] = []

    def others(self) -> list[str]:
        return self.sockets

    def register(self, socket: str, resource: str) -> None:
        self.registered.append((socket, resource))
        if socket == "broken.sock":
            raise KubeletError("no options")


class Looping:
    """An agent that follows `peer`. The kubelet and the container `a` are there once the test starts them.

    It serves `claims` if the test says so.
    """

    def __init__(
        self, folder: Path, peer: Peer | None = None, exclude: Sequence[str] = (), *, claims: bool = False
    ) -> None:
        self.parts = Parts(folder, peer or Peer(), exclude=exclude)
        self.peer, self.host = self.parts.peer, self.parts.host
        self.socket = folder / "kubelet.sock"
        (folder / "pod-resources").mkdir(exist_ok=True)
        self.made: dict[str, Plugin] = {}
        parts = self.parts
        store = folder / "other-plugins.json"
        self.others = OtherPlugins(self.peer, Folder(), lambda: None, store, self.clock)
        self.advertiser = Advertiser(
            self._make, self.socket, parts.records, parts.starts, self.others, self.clock
        )
        self.covered = CoveredSlices(parts.records, parts.injector.files, self.host, self.peer, self.clock)
        self.figures = figures = KernelFigures(
            parts.records, parts.cards, self.host, RenderScan(self.host, self.clock)
        )
        self.unaccounted_memory = UnaccountedMemory(
            parts.records, parts.writable, parts.cards, figures, self.peer, 64, self.clock
        )
        self.driver = DriverSlices(parts.records, parts.cards, figures, self.peer, self.clock)
        self.unenforced = UnenforcedSlices(
            parts.records, parts.writable, parts.cards, figures, self.driver, self.peer, self.clock
        )
        self.history = SliceHistory(parts.records, parts.writable, figures, self.clock)
        self.kernel = KernelChecks(
            figures, self.unaccounted_memory, self.driver, self.unenforced, self.history,
            IdlePods(parts.records, parts.active, self.history, self.peer, self.clock, self.clock),
        )  # fmt: skip
        self.signs = NodeSigns((), (), ())
        self.rivals = Rivals(parts.cards, lambda: self.signs, self.clock)
        self.meter = Meter(
            "n1", parts.records, parts.writable, parts.cards, parts.active, tuple, figures, self.unaccounted_memory,
            self.driver, self.history, lambda: self.agent.inventory_age(),
        )  # fmt: skip
        self.driver_made, self.shown = Driver(), Shown()
        self.drivers = Drivers(lambda _: self.driver_made, cast("Any", self.shown), self.clock)
        self.agent = AgentLoop(
            parts.shared, self.advertiser, Publisher(self.peer, self.clock), parts.reclaimer, parts.refused,
            self.covered, self.kernel, Preflight(self.peer, folder, folder, folder, self.rivals.problems),
            self.others, self.rivals, 0, self.clock, self.drivers if claims else None,
        )  # fmt: skip

    def _make(self, resource: str) -> Plugin:
        self.made[resource] = Plugin()
        return self.made[resource]

    def clock(self) -> float:
        return self.parts.now

    def start(self) -> "Looping":
        """With its kubelet, and the container `a` running."""
        self.kubelet()
        self.parts.start()
        self.peer.living.add(self.parts.run().uid)
        return self

    def kubelet(self) -> None:
        """A kubelet starts: it has a new socket, and our own are gone."""
        fresh = self.socket.with_suffix(".new")
        fresh.touch()
        fresh.replace(self.socket)
        for plugin in self.made.values():
            plugin.stop()

    def served(self) -> dict[str, list[str]]:
        """The tickets that the kubelet hears of us, by resource."""
        return {name: list(plugin.devices) for name, plugin in self.made.items() if plugin.streaming}

    def advertise(self, seconds: float = TURN_SECONDS) -> None:
        """Advertise, and nothing else, after some time."""
        self.parts.now += seconds
        self.advertiser.step(self.parts.shared.cards())

    def hold(self, *foreign: int, slack: int = 0) -> None:
        """The driver holds the slices of all containers, and those with `foreign` pipes on the first card.

        The limits of ours are `slack` bytes larger than granted.
        """
        cards = list(self.parts.cards())
        pipes = {(cards.index(uuid), pipe): _mem_bytes(record, uuid) + slack
                 for record in self.parts.records.all() for uuid, pipe in record.vendor_ids.items()}  # fmt: skip
        pipes |= {(0, pipe): 1 << 30 for pipe in foreign}
        content = bytearray(driver.CARDS * driver.PIPES * driver.RECORD.size)
        for (card, pipe), size in pipes.items():
            at = (card * driver.PIPES + pipe) * driver.RECORD.size
            driver.RECORD.pack_into(content, at, 0, 0, time.monotonic_ns(), size, 1, 0, 0, 0)
        (self.parts.machine / "state/pipes").write_bytes(content)

    def check_kernel(self, seconds: float, *, held: bool = True, foreign: Sequence[int] = ()) -> None:
        """Compare the slices with the kernel's figures, and nothing else, for some time."""
        end = self.parts.now + seconds
        while self.parts.now < end:
            self.parts.now += LOOK_SECONDS
            if held:
                self.hold(*foreign)
            self.kernel.step()

    def look(self, seconds: float) -> list[str]:
        """Look for covers, and nothing else, for some time; returns which pods are covered then."""
        end = self.parts.now + seconds
        while self.parts.now < end:
            self.parts.now += TURN_SECONDS
            self.covered.step()
        return [record.pod_name for record in self.covered.found()]

    def turns(self, seconds: float) -> tuple[ReportedSlice, ...]:
        """Let the agent work for some time; returns what the inventory reports then."""
        for _ in range(int(seconds / TURN_SECONDS)):
            self.parts.now += TURN_SECONDS
            self.agent.turn()
        return Inventory.decode(self.peer.inventory).slices

    def mountinfo(self, *extra: str) -> str:
        """The text of mountinfo in the node's one container: its mounts, then the lines of `extra`."""
        (record,) = self.parts.records.all()
        lines = ["10 1 0:9 / / rw - overlay overlay rw"]
        for number, (source, path) in enumerate(self.parts.injector.files(record), 11):
            lines.append(f"{number} 10 8:1 {source} {path} ro - ext4 sda rw")
        return "\n".join([*lines, *extra]) + "\n"


def _mem_bytes(record: Record, card: str) -> int:
    return next(each.mem_mib for each in record.slices if each.card == card) << 20
