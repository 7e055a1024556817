"""Builds the node agent: its adapters, its stages, the loop that runs them, and its servers."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_plugin.adapters.card_memory import DmemCgroups
from device_plugin.adapters.cards.host import HostMachine
from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import from_settings
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.adapters.kubelet import dra, server
from device_plugin.adapters.kubelet.dra import DraServer
from device_plugin.adapters.kubelet.podresources import KubeletPodResources
from device_plugin.adapters.kubelet.server import PluginServer
from device_plugin.adapters.metrics import Exposition
from device_plugin.adapters.probes import probes
from device_plugin.adapters.processes import CgroupProcesses, ProcProcesses
from device_plugin.core.pods import Pod
from device_plugin.core.requests import all_resource_names
from device_plugin.kube.api import PODS, RESOURCE_SLICES, Change, Where
from device_plugin.node import ports
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.claim_users import ClaimUsers
from device_plugin.node.checks.covered import CoveredSlices
from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.idle_pods import IdlePods
from device_plugin.node.checks.kernel_checks import KernelChecks
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.kernel_limits import KernelLimits
from device_plugin.node.checks.other_plugins import OtherPlugins
from device_plugin.node.checks.preflight import Preflight
from device_plugin.node.checks.refused import RefusedStarts
from device_plugin.node.checks.render_scan import RenderScan
from device_plugin.node.checks.rivals import Rivals
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.checks.unenforced import UnenforcedSlices
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Records
from device_plugin.node.slices.tickets import not_advertised, resources
from device_plugin.node.slices.writable import WritableFiles
from device_plugin.node.stages.advertise import Advertiser, kubelet_identity
from device_plugin.node.stages.agent import AgentLoop
from device_plugin.node.stages.allocate import ContainerStarts
from device_plugin.node.stages.discover import Discovery, SharedCards
from device_plugin.node.stages.drivers import Drivers
from device_plugin.node.stages.inject import Injector
from device_plugin.node.stages.meter import Meter
from device_plugin.node.stages.prepare import ClaimStarts
from device_plugin.node.stages.publish import Publisher
from device_plugin.node.stages.reclaim import Reclaimer
from device_plugin.node.stages.renew import Renewer
from device_plugin.node.stages.resource_slices import ResourceSlices
from device_plugin.node.stages.start import Starter
from device_plugin.node.vendors.families import FAMILIES, Family
from device_plugin.node.vendors.port import Machine, NodeSigns, Vendor
from device_plugin.wiring import nodes_file
from device_plugin.wiring.build_info import with_build_info
from device_plugin.wiring.commands import say_listening
from device_plugin.wiring.settings import NodeSettings, SettingsError
from device_plugin.wiring.threads import Threads
from vgpu_runtime.paths import LIBRARY, SMI, TELL

log = logging.getLogger(__name__)

COMPONENT = "vgpu-node"


@dataclass(frozen=True)
class Host:
    """The parts of the host that the agent reads; the laboratory (hack/simulated) replaces them by simulated ones."""

    machine: Machine
    pods: ports.Processes
    processes: ports.HostProcesses
    cgroups: ports.PodCgroups
    # Problems with reading the host: one text each, or an empty one.
    problems: Callable[[], Iterable[str]]


def host(settings: NodeSettings) -> Host:
    """The real host, read from the folders that the settings name."""
    cgroups, processes = CgroupProcesses(Path(settings.cgroup_root)), ProcProcesses(Path(settings.proc_root))
    return Host(
        HostMachine(Path(settings.root)),
        cgroups,
        processes,
        DmemCgroups(Path(settings.cgroup_root)),
        lambda: (cgroups.problem(), processes.problem()),
    )


class NodeService:
    """The node agent. Its process ends if one of its threads fails."""

    def __init__(self, settings: NodeSettings, stop: threading.Event, host: Host) -> None:
        self._settings = settings
        self._stop = stop
        self._threads = Threads(stop)
        kube, kubelet, state = settings.kube, Path(settings.kubelet_dir), Path(settings.state_dir)
        endpoint = from_settings(kube.server, kube.token_file, kube.ca_file, kube.kubeconfig)
        resources = all_resource_names(settings.prefixes.values())
        self._client = KubeClient(endpoint, COMPONENT, resources=resources)
        self._api = NodeApi(self._client, settings.node_name)
        self._own = self._own_settings()
        settings = self._own.settings
        vendors = tuple(family(host.machine, _mounts(settings, family)) for family in FAMILIES)
        self._records = Records(state)
        self._cards = SharedCards(_discovery(settings, vendors), self._api, self._records.all)
        self._writable = WritableFiles(state, self._records.folder)
        self._injector = Injector(
            self._records,
            self._writable,
            vendors,
            self._cards,
            state,
            Path(settings.cdi_dir),
            Path(settings.library or LIBRARY),
            (TELL, SMI),
        )
        self._node_pods = NodePods(host.pods)
        self._pod_resources = KubeletPodResources(kubelet / "pod-resources" / "kubelet.sock")
        self._refused = RefusedStarts(self._records, self._node_pods)
        limits = KernelLimits(self._cards, host.cgroups)
        self._starter = Starter(
            self._node_pods, self._records, self._injector, self._cards, limits, self._refused
        )
        self._starts = ContainerStarts(
            self._api, self._pod_resources, self._node_pods, self._records, self._starter
        )
        self._claims = ClaimStarts(
            settings.node_name, self._api, self._node_pods, self._records, self._injector, self._cards,
            self._starter,
        )  # fmt: skip
        self._slices = ResourceSlices(self._api, settings.node_name)
        self._plugins = kubelet / "device-plugins"
        self._others = OtherPlugins(
            self._pod_resources,
            server.PluginSockets(self._plugins),
            self._api.node,
            state / "other-plugins.json",
        )
        self._rivals = Rivals(self._cards, self._signs)
        render = RenderScan(host.processes) if settings.render_work else None
        figures = KernelFigures(self._records, self._cards, host.processes, render)
        unaccounted = UnaccountedMemory(
            self._records, self._writable, self._cards, figures, self._api, settings.unaccounted_mib
        )
        driver = DriverSlices(self._records, self._cards, figures, self._api)
        history = SliceHistory(self._records, self._writable, figures)
        self._agent = self._loop(host, figures, unaccounted, driver, history)
        self._meter = Meter(
            settings.node_name, self._records, self._writable, self._cards, self._node_pods, self._agent.reports,
            figures, unaccounted, driver, history, self._agent.inventory_age,
        )  # fmt: skip
        here = Where(fields=f"spec.nodeName={settings.node_name}")
        self._pods = ListWatch(self._client, PODS, here)
        self._slice_watch = ListWatch(self._client, RESOURCE_SLICES, here) if settings.claims else None

    def _own_settings(self) -> nodes_file.OwnSettings:
        """The settings, with the changes of `nodesFile` for this node. Raises SettingsError."""
        try:
            return nodes_file.OwnSettings(self._settings, self._labels)
        except OSError as error:
            raise SettingsError(f"cannot use {error.filename}: {error.strerror} (stateDir)") from error

    def _labels(self) -> Mapping[str, str] | None:
        node = self._api.node()
        return (node.labels or {}) if node else None

    def _loop(
        self, host: Host, figures: KernelFigures, unaccounted: UnaccountedMemory, driver: DriverSlices,
        history: SliceHistory,
    ) -> AgentLoop:  # fmt: skip
        """The agent's loop, with the stages that it calls one after another."""
        settings = self._settings
        advertiser = Advertiser(
            self._server, self._plugins / server.KUBELET, self._records, self._starts, self._others
        )
        reclaimer = Reclaimer(
            self._records,
            self._writable,
            self._injector,
            self._node_pods,
            self._starter,
            self._api,
            ClaimUsers(host.processes),
        )
        covered = CoveredSlices(self._records, self._injector.files, host.processes, self._api)
        unenforced = UnenforcedSlices(self._records, self._writable, self._cards, figures, driver, self._api)
        idle = IdlePods(self._records, self._node_pods, history, self._api)
        renewer = Renewer(self._records, self._node_pods, host.processes, self._injector, self._starter)
        preflight = Preflight(
            self._api, Path(settings.cdi_dir), Path(settings.state_dir), Path(settings.kubelet_dir),
            lambda: self._problems(host.problems()),
        )  # fmt: skip
        return AgentLoop(
            self._cards, advertiser, Publisher(self._api), reclaimer, self._refused, covered,
            KernelChecks(figures, unaccounted, driver, unenforced, history, idle), preflight, self._others,
            self._rivals, settings.drain_seconds,
            drivers=Drivers(self._driver, self._slices) if settings.claims else None,
            renewer=renewer if settings.claims else None,
        )  # fmt: skip

    def run(self) -> int:
        """Serve until `stop` is set, then end the servers and threads; returns the exit status."""
        self._prepare()
        with ExitStack() as stack:
            stack.callback(self._client.close)
            stack.callback(self._pod_resources.close)
            self._listen(stack)
            watching = threading.Event()
            self._threads.spawn("pods", lambda: self._pods.run(self._node_pods.sync, self._on_pod, watching))
            if (slices := self._slice_watch) is not None:
                self._threads.spawn(
                    "ResourceSlices", lambda: slices.run(self._slices.sync, self._slices.change, watching)
                )
            self._threads.spawn("nodes file", self._follow_nodes_file)
            self._agent.run(self._stop)
            self._starts.stop()
            self._claims.stop()
            watching.set()
            self._pods.interrupt()
            if slices is not None:
                slices.interrupt()
            self._threads.join()
        return 1 if self._threads.failed else 0

    def _follow_nodes_file(self) -> None:
        """Wait until `nodesFile` gives the node other settings, then end the service."""
        while not self._stop.wait(nodes_file.LOOK_SECONDS):
            if self._own.outdated():
                log.info(
                    "nodesFile has other settings for this node: the agent ends, to start again with them"
                )
                self._stop.set()

    def _prepare(self) -> None:
        try:
            self._records.load()
            self._writable.look()
            self._others.load()
            self._injector.prepare()
        except OSError as error:
            raise SettingsError(
                f"cannot use {error.filename}: {error.strerror} (stateDir, cdiDir, library)"
            ) from error
        self._cards.look()
        node = self._api.node()
        if node is not None:
            ours = resources(self._cards.cards())
            if not any(self._server(resource.name).path.exists() for resource in ours):
                self._others.expect(node.capacity or {}, ours)

    def _problems(self, found: Iterable[str]) -> Iterator[str]:
        yield from filter(None, (self._own.problem, *found))
        yield from not_advertised(self._cards.cards())
        yield from self._others.problems()
        yield from self._rivals.problems()
        for vendor in {local.vendor for local in self._cards().values()}:
            for path in vendor.missing_mounts():
                yield (
                    f"mounts: {path} is not there, or empty, and containers start without it: install the vendor's"
                    " stack on the node, and mount it into the agent's pod at this path"
                )

    def _signs(self) -> NodeSigns:
        """The traces of other programs on the node; traces that cannot be read now are left out."""
        node, cdi = self._api.node(), Path(self._settings.cdi_dir)
        return NodeSigns(
            registers=node.registers if node else (),
            sockets=server.PluginSockets(self._plugins).others(),
            cdi_files=[path.name for path in cdi.iterdir()] if cdi.is_dir() else (),
        )

    def _listen(self, stack: ExitStack) -> None:
        app = probes(
            self._agent.why_not_alive,
            self._agent.why_not_ready,
            Exposition(with_build_info("node", self._meter)),
        )
        listen = self._settings.http_listen
        try:
            probing = stack.enter_context(http.Server(app, listen, silence=http.UNTRUSTED_SECONDS))
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot listen on {listen}: {error}") from error
        say_listening(f"http={probing.address}")

    def _server(self, resource: str) -> PluginServer:
        return PluginServer(resource, self._plugins, self._starts)

    def _driver(self, name: str) -> DraServer:
        folder = Path(self._settings.kubelet_dir) / dra.REGISTRY
        kubelet = self._plugins / server.KUBELET
        return DraServer(
            name, self._settings.node_name, folder, self._claims, lambda: kubelet_identity(kubelet)
        )

    def _on_pod(self, change: Change, pod: Pod) -> None:
        self._node_pods.change(pod, gone=change is Change.DELETED)


def _mounts(settings: NodeSettings, family: Family) -> Sequence[str]:
    """The host paths from the setting `mounts` that the family's containers get."""
    ids = (f"{family.PCI_VENDOR:04x}", f"{family.PCI_VENDOR:#06x}")
    return [path for key, wanted in settings.mounts.items() if key.lower() in ids for path in wanted]


def _discovery(settings: NodeSettings, vendors: Sequence[Vendor[Any]]) -> Discovery:
    tails = [prefix.rpartition("/")[2] for prefix in settings.prefixes.values()]
    if len(set(tails)) != len(set(settings.prefixes.values())):
        raise SettingsError(
            "prefixes: two of them end alike after the slash; tickets are named after that part"
        )
    try:
        return Discovery(
            settings.node_name, vendors, settings.prefixes, settings.mem_unit_mib, settings.exclude_cards,
            settings.enforcement,
        )  # fmt: skip
    except ValueError as error:
        raise SettingsError(
            f"prefixes, enforcement: write PCI vendor ids in hexadecimal, such as 1d94: {error}"
        ) from error


def run(settings: NodeSettings, stop: threading.Event, of: Callable[[NodeSettings], Host] = host) -> int:
    """Run the node agent until `stop` is set; prints its address and returns the exit status.

    `of` returns the host for the settings. Raises SettingsError, EndpointError.
    """
    if not Path(settings.root).is_dir():
        raise SettingsError(
            f"root: no folder {settings.root}: write where the host's sys/ and dev/ are, such as /"
        )
    os.umask(0o022)  # containers of any user read our files
    return NodeService(settings, stop, of(settings)).run()
