"""The agent's parts on a simulated machine, with a kubelet and an API server that do what the test says."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import AllocatedDevice, Allocation, device_class, device_name
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.machine import Holder, KubeletError, PreparedClaim
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.kube.api import Named
from device_plugin.kube.errors import GoneError, UnknownError
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.claim_users import ClaimUsers
from device_plugin.node.checks.kernel_limits import KernelLimits
from device_plugin.node.checks.refused import RefusedStarts
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Records
from device_plugin.node.slices.tickets import cdi_name
from device_plugin.node.slices.writable import FOLDER, KINDS, WritableFiles, room
from device_plugin.node.stages.allocate import ContainerStarts
from device_plugin.node.stages.discover import Discovery, SharedCards
from device_plugin.node.stages.inject import Injector
from device_plugin.node.stages.prepare import ClaimStarts
from device_plugin.node.stages.reclaim import Reclaimer
from device_plugin.node.stages.start import Starter
from device_plugin.node.vendors.families import FAMILIES
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import Machine, Vendor
from hack.embedded.runtime.cdi import Edits, read_spec
from hack.simulated.cards import SimulatedMachine
from tests.builders.cards import CARDS, MEM
from vgpu_runtime import sim
from vgpu_runtime.paths import SMI, TELL

PREFIXES = {"1d94": "hygon.com/dcu", "1002": "amd.com/gpu"}
TICKETS = ("dcu-mem-0", "dcu-mem-1")


def vendors(machine: Machine) -> Sequence[Vendor[Any]]:
    """The families of cards that the agent knows."""
    return [family(machine) for family in FAMILIES]


def discovered(machine: Path, node: str = "n1", *exclude: str) -> list[Card]:
    """The cards of a real machine that an agent shares."""
    discovery = Discovery(node, vendors(HostMachine(machine)), PREFIXES, 1024, exclude)
    return [local.card for local in discovery.scan()]


@dataclass
class Peer(NodeApi):
    """Kubelet, API server and processes at once. The API server is `up` or not, and counts what is written."""

    inventory: str = ""
    cordoned: str = ""
    kubelet: str = ""
    runtime: str = ""
    up: bool = True
    writes: int = 0
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    # By name: what the ResourceClaims of namespace `default` were given.
    claims: dict[str, Allocation] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    healthy: dict[str, frozenset[str]] = field(default_factory=dict)
    mute: bool = False
    # By pod UID: what its cgroup is limited to.
    limited: dict[str, Mapping[str, int]] = field(default_factory=dict)
    living: set[str] = field(default_factory=set)
    events: list[tuple[str, str]] = field(default_factory=list)

    def pod(self, namespace: str, name: str) -> Pod:
        try:
            return self.pods[namespace, name]
        except KeyError:
            raise GoneError("not found") from None

    def allocation(self, namespace: str, name: str) -> Allocation:
        if not self.up:
            raise UnknownError("no answer")
        try:
            return self.claims[name]
        except KeyError:
            raise GoneError(f"no claim {namespace}/{name}") from None

    def node(self) -> Node | None:
        if not self.up:
            return None
        return Node("n1", self.inventory, kubelet=self.kubelet, runtime=self.runtime, cordoned=self.cordoned)

    def publish(self, inventory: str) -> bool:
        if self.up:
            self.inventory = inventory
            self.writes += 1
        return self.up

    def node_event(self, event: Event, message: str) -> None:
        self.events.append((event, message))

    def pod_event(self, pod: Named, event: Event, message: str) -> bool:
        self.events.append((f"{event} {pod.name}", message))
        return self.up

    def devices(self) -> Mapping[str, frozenset[str]]:
        if self.mute:
            raise KubeletError("the kubelet does not say")
        return dict(self.healthy)

    def list(self) -> Sequence[Holder]:
        return list(self.holders)

    def limit_card_memory(self, pod: str, limits: Mapping[str, int]) -> str:
        self.limited[pod] = limits
        return ""

    def live(self, pod: str) -> bool:
        return pod in self.living


@dataclass
class Host:
    """Processes by pod, each with its mounts."""

    mounted: dict[str, dict[int, str]] = field(default_factory=dict)
    whole: bool = True
    opened: dict[int, list[str]] = field(default_factory=dict)
    looks: int = 0
    reads: int = 0

    def look(self) -> None:
        self.looks += 1

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        return list(self.mounted.get(pod, {}))[:most]

    def live_pods(self) -> Collection[str]:
        return list(self.mounted)

    def open_files(self, process: int) -> Iterator[str]:
        yield from self.opened.get(process, ())

    def mounts(self, process: int) -> tuple[str, bool] | None:
        self.reads += 1
        texts = [text for processes in self.mounted.values() for p, text in processes.items() if p == process]
        return (texts[0], self.whole) if texts else None

    def container(self, process: int) -> tuple[str, str] | None:
        found = [(pod, f"c-{pod}") for pod, processes in self.mounted.items() if process in processes]
        return found[0] if found else None

    def own_mounts(self) -> str:
        return "1 0 8:1 / / rw - ext4 sda rw\n"


class Parts:
    """One life of an agent on the machine in `folder`; make another to restart it."""

    def __init__(
        self, folder: Path, peer: Peer, cards: str = CARDS, room: Callable[[Path], int] = room,
        exclude: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.machine, self.state, self.cdi = folder / "machine", folder / "state", folder / "cdi"
        if not self.machine.exists():
            sim.build(sim.parse(cards), self.machine)
            sim.add_driver(self.machine)
        library = folder / "libvgpu.so"
        library.write_text("the library\n")
        tools = [folder / tool.name for tool in (TELL, SMI)]
        for tool in tools:
            tool.write_text("a tool\n")
        self.peer = peer
        # Figures that the cards report in place of their own.
        self.less: Mapping[str, Any] = {}
        families = vendors(SimulatedMachine(self.machine))
        self.records = Records(self.state)
        self.shared = SharedCards(Discovery("n1", families, PREFIXES, 1024, exclude), peer, self.records.all)
        self.shared.look()
        self.writable = WritableFiles(self.state, self.records.folder, room)
        self.injector = Injector(
            self.records, self.writable, families, self.cards, self.state, self.cdi, library, tools
        )
        self.active = NodePods(peer)
        self.now = 0.0
        self.refused = RefusedStarts(self.records, self.active, lambda: self.now)
        self.starter = Starter(
            self.active, self.records, self.injector, self.cards, KernelLimits(self.cards, peer), self.refused
        )
        self.starts = ContainerStarts(peer, peer, self.active, self.records, self.starter)
        self.claims = ClaimStarts(
            "n1", peer, self.active, self.records, self.injector, self.cards, self.starter
        )
        self.host = Host()
        self.reclaimer = Reclaimer(
            self.records, self.writable, self.injector, self.active, self.starter, peer,
            ClaimUsers(self.host, lambda: self.now), lambda: self.now,
        )  # fmt: skip

    def cards(self) -> Mapping[str, LocalCard]:
        """The cards as they report themselves now."""
        found = self.shared().items()
        return {
            uuid: replace(local, card=msgspec.structs.replace(local.card, **self.less))
            for uuid, local in found
        }

    def start(self) -> None:
        """What the agent does before it serves, and the first list of pods."""
        self.records.load()
        self.writable.look()
        self.injector.prepare()
        self.active.sync(list(self.peer.pods.values()))
        self.reclaimer.sweep_unrecorded()

    @property
    def uuids(self) -> list[str]:
        return list(self.shared())

    def bind(self, name: str, slices: Sequence[Slice], limits: Mapping[str, str]) -> Pod:
        """A pod that the allocator has placed here."""
        grant = Grant(f"uid-{name}", "n1", {"main": tuple(slices)})
        pod = Pod(
            "default", name, f"uid-{name}", node="n1", annotations={annotations.GRANT: grant.encode()},
            containers=(Container("main", ContainerKind.MAIN, limits),),
        )  # fmt: skip
        self.peer.pods["default", name] = pod
        self.active.change(pod, gone=False)
        return pod

    def bind_claims(
        self, name: str, given: Mapping[str, Sequence[Slice]], limits: Mapping[str, Mapping[str, str]] = {}
    ) -> Pod:
        """A pod that the allocator has placed here, whose containers in `given` have a claim NAME-CONTAINER each.

        `limits` are those of its containers that asked in their limits, whose slices are in `given` too.
        """
        claims = {
            container: f"claim-uid-{name}-{container}" for container in given if container not in limits
        }
        slices = {container: tuple(each) for container, each in given.items()}
        grant = Grant(f"uid-{name}", "n1", slices, claims=claims)
        pod = Pod(
            "default", name, f"uid-{name}", node="n1", annotations={annotations.GRANT: grant.encode()},
            containers=tuple(Container(each, ContainerKind.MAIN, limits.get(each, {})) for each in given),
        )  # fmt: skip
        self.peer.pods["default", name] = pod
        for container, uid in claims.items():
            self.peer.claims[f"{name}-{container}"] = Allocation(
                uid, tuple(self.allocated(s) for s in slices[container]), ((name, pod.uid),)
            )
        self.active.change(pod, gone=False)
        return pod

    def allocated(self, slice_: Slice) -> AllocatedDevice:
        """The device by which a claim shows a slice."""
        card = self.shared()[slice_.card].card
        return AllocatedDevice(
            "slice", device_class(card.family), "n1", device_name(card), f"share-{slice_.card}"
        )

    def prepare(self, pod: Pod, container: str = "main") -> PreparedClaim:
        """The kubelet asks for the claim of a container of the pod, and does not wait."""
        return self.claims.prepare("default", f"{pod.name}-{container}", f"claim-{pod.uid}-{container}", 0.0)

    def hold(self, pod: Pod, tickets: Mapping[str, Sequence[str]]) -> None:
        """The kubelet admits the pod: it calls Allocate for each resource, and shows them from then on."""
        for resource, ids in tickets.items():
            self.starts.allocate(resource, ids)
        held = {resource: frozenset(ids) for resource, ids in tickets.items()}
        self.peer.holders.append(Holder(pod.namespace, pod.name, "main", held))

    def run(self, mib: int = 2046, cores: Sequence[int] = (0, 1), tickets: Sequence[str] = TICKETS) -> Pod:
        """Pod `a` with a slice of the first card, whose container starts."""
        pod = self.bind("a", [Slice(self.uuids[0], mib, tuple(cores))], {MEM: str(len(tickets))})
        self.hold(pod, {MEM: tickets})
        self.starts.pre_start(MEM, tickets)
        return pod

    def end(self, pod: Pod) -> None:
        """The pod is gone, everywhere."""
        del self.peer.pods[pod.namespace, pod.name]
        self.peer.holders = [holder for holder in self.peer.holders if holder.pod != pod.name]
        self.peer.living.discard(pod.uid)
        self.active.change(pod, gone=True)

    def spec(self, resource: str, tickets: Sequence[str]) -> Edits:
        """Returns the edits of the CDI device of these tickets, as a runtime reads them now."""
        return self.edits(f"vgpu.io/slice={cdi_name(resource, tickets)}")

    def edits(self, name: str) -> Edits:
        """Returns the edits of the CDI device of this name, as a runtime reads them now."""
        specs = (read_spec(path.read_text()) for path in self.cdi.glob("vgpu-*.json"))
        (found,) = (spec[name] for spec in specs if name in spec)
        return found

    def left(self) -> list[Path]:
        """Every file of a container, and every spec."""
        own = [path for kind in KINDS for path in (self.state / FOLDER).glob(f"{kind.name}_*")]
        paths = [*(self.state / "slices").rglob("*"), *self.cdi.iterdir(), *own]
        return [path for path in paths if path.is_file()]


def config_of(edits: Edits) -> str:
    """The vgpu.conf that these edits mount. Raises OSError if its source is gone, as the runtime fails."""
    (source,) = [mount.source for mount in edits.mounts if mount.target == "/etc/vgpu/vgpu.conf"]
    return Path(source).read_text()
