"""The device manager: device IDs (tickets) of every resource, their holders, and the calls to plugins.

Model: pkg/kubelet/cm/devicemanager/manager.go of Kubernetes 1.36.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hack.embedded import pod_spec
from hack.embedded.kubelet import pod_devices
from hack.embedded.kubelet.plugin_endpoint import Allocated, PluginEndpoint, PluginError
from hack.embedded.kubelet.pod_devices import DevicesCheckpoint, HeldTickets
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.pod_spec import ContainerView, Json


class AllocationError(Exception):
    """A container cannot get its tickets (device IDs); the text is the real kubelet's text."""


@dataclass(slots=True)
class _Resource:
    """The state of one advertised resource. `endpoint` is None after a restart until its plugin registers again.

    `health` is the plugin's last list. `here` is true while its connection is open and has sent a list.
    """

    health: Mapping[str, bool] = field(default_factory=dict)
    here: bool = False
    endpoint: PluginEndpoint | None = None
    stopped_at: float | None = None

    @property
    def healthy(self) -> set[str]:
        """The devices that may be allocated; none while the plugin is away."""
        return {name for name, healthy in self.health.items() if self.here and healthy}


class DeviceManager:
    """Holds the tickets (device IDs) of all resources, for one kubelet process.

    `active` returns the pods that may hold tickets; `changed` is called when a capacity may have changed.
    """

    def __init__(
        self,
        checkpoint: Path,
        rng: random.Random,
        timing: KubeletTiming,
        active: Callable[[], Collection[Json]],
        changed: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._rng = rng
        self._timing = timing
        self._active = active
        self._changed = changed
        self._lock = threading.Lock()
        kept = pod_devices.load(checkpoint)
        self._held = {(held.pod, held.container, held.resource): held for held in kept.holdings}
        self._resources = {resource: _Resource(stopped_at=time.monotonic()) for resource in kept.registered}
        # By resource: the held tickets, and the tickets of an Allocate call that has no answer yet.
        self._allocated = pod_devices.in_use(kept.holdings)

    # Called by the registration service for plugins

    def connected(self, endpoint: PluginEndpoint) -> None:
        """Record the endpoint of a plugin that registered; its devices come with its first list."""
        with self._lock:
            resource = self._resources.setdefault(endpoint.resource, _Resource())
            resource.endpoint, resource.stopped_at = endpoint, None
        self._changed()

    def listed(self, resource: str, health: Mapping[str, bool]) -> None:
        """Record a plugin's list of devices, which replaces the earlier list."""
        with self._lock:
            entry = self._resources.setdefault(resource, _Resource())
            entry.health, entry.here = health, True
            self._save()
        self._changed()

    def disconnected(self, resource: str) -> None:
        """Record that a plugin went away: its devices are not healthy, and its capacity ends after a grace period."""
        with self._lock:
            entry = self._resources.get(resource)
            if entry is None:
                return
            entry.here, entry.stopped_at = False, time.monotonic()
        self._changed()

    # The resources in the Node object

    def capacity(self) -> dict[str, tuple[int, int]]:
        """The pair (capacity, allocatable) by resource; (0, 0) if the plugin has been away for the grace period."""
        with self._lock:
            late = time.monotonic() - self._timing.endpoint_grace
            for entry in self._resources.values():
                if entry.stopped_at is not None and entry.stopped_at < late:
                    entry.health = {}
            return {name: (len(entry.health), len(entry.healthy)) for name, entry in self._resources.items()}

    def allocatable(self) -> dict[str, set[str]]:
        """The healthy devices by resource."""
        with self._lock:
            return {name: entry.healthy for name, entry in self._resources.items()}

    # Allocation for pods

    def allocate(self, pod: Json, running: Collection[str]) -> None:
        """Allocate the tickets (device IDs) of a pod's containers, for one pod at a time. Raises AllocationError.

        Containers in `running` ran when the kubelet started, and keep their tickets.
        """
        uid = pod_spec.uid(pod)
        self._free_inactive(uid)
        reusable: dict[str, set[str]] = {}
        for view in pod_spec.containers(pod):
            self._allocate_container(uid, view, reusable, running)
            for holding in self.holdings(uid, view.name):
                if view.init and not view.sidecar:
                    reusable.setdefault(holding.resource, set()).update(holding.ids)
                else:
                    reusable.get(holding.resource, set()).difference_update(holding.ids)

    def pre_start(self, pod: str, view: ContainerView) -> Allocated:
        """Call PreStartContainer of plugins that want it; returns the container's variables and CDI devices.

        Raises PluginError.
        """
        env: dict[str, str] = {}
        cdi: list[str] = []
        for resource in self._plugin_resources(view):
            with self._lock:
                entry, holding = self._resources.get(resource), self._held.get((pod, view.name, resource))
            if entry is None:
                raise PluginError(f"endpoint not found in cache for a registered resource: {resource}")
            if holding is None:  # the pod was deleted meanwhile
                raise PluginError(
                    f"no devices found allocated in local cache for pod {pod}, container {view.name},"
                    f" resource {resource}"
                )
            # A plugin known only from the checkpoint has no options: the real kubelet does not call it either.
            if entry.endpoint is not None and entry.endpoint.pre_start_required:
                entry.endpoint.pre_start(self._shuffled(holding.ids), self._timing.pre_start)
            env.update(holding.answer.env)
            cdi.extend(holding.answer.cdi_devices)
        return Allocated(env, tuple(cdi))

    def holdings(self, pod: str, container: str) -> list[HeldTickets]:
        """The tickets (device IDs) of one container, in the order of their resources."""
        with self._lock:
            mine = [held for held in self._held.values() if (held.pod, held.container) == (pod, container)]
        return sorted(mine, key=lambda held: held.resource)

    def health(self, pod: str, container: str) -> list[Json]:
        """The allocatedResourcesStatus of one container: the last health of its tickets (device IDs)."""
        told: list[Json] = []
        for holding in self.holdings(pod, container):
            with self._lock:
                entry = self._resources.get(holding.resource, _Resource())
            tickets = [
                {"resourceID": ticket, "health": "Healthy" if entry.health.get(ticket, True) else "Unhealthy"}
                for ticket in sorted(holding.ids)
            ]
            told.append({"name": holding.resource, "resources": tickets})
        return told

    def _allocate_container(
        self, pod: str, view: ContainerView, reusable: Mapping[str, set[str]], running: Collection[str]
    ) -> None:
        for resource in self._plugin_resources(view):
            with self._lock:
                ids = self._choose(pod, view, resource, reusable.get(resource, set()), running)
                if not ids:
                    continue
                self._allocated.setdefault(resource, set()).update(ids)
                endpoint = self._resources[resource].endpoint
            answer = self._ask(resource, endpoint, ids)
            with self._lock:
                self._held[pod, view.name, resource] = HeldTickets(
                    pod, view.name, resource, frozenset(ids), answer
                )
                self._save()

    def _ask(self, resource: str, endpoint: PluginEndpoint | None, ids: set[str]) -> Allocated:
        try:
            if endpoint is None:
                raise PluginError(f"endpoint {resource} has been stopped")
            return endpoint.allocate(self._shuffled(ids))
        except PluginError as error:
            with self._lock:
                self._allocated = pod_devices.in_use(self._held.values())
            raise AllocationError(str(error)) from None

    def _choose(
        self, pod: str, view: ContainerView, resource: str, reusable: set[str], running: Collection[str]
    ) -> set[str]:
        """The tickets (device IDs) to allocate now; empty if the container has them. Raises AllocationError."""
        held = self._held.get((pod, view.name, resource))
        if held is not None and view.name in running:
            return set()
        entry = self._resources.get(resource)
        if entry is None:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        healthy = entry.healthy
        if not healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if held is not None:
            if not held.ids <= healthy:
                raise AllocationError(
                    f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
                )
            return set()
        wanted = view.limits[resource]
        first = self._rng.sample(sorted(reusable), min(wanted, len(reusable)))
        free = sorted(healthy - self._allocated.get(resource, set()))
        missing = wanted - len(first)
        if len(free) < missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. Requested: {missing}, Available: {len(free)}"
            )
        return {*first, *self._rng.sample(free, missing)}

    def _free_inactive(self, admitting: str) -> None:
        active = {admitting, *map(pod_spec.uid, self._active())}
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if held.pod in active}
            self._allocated = pod_devices.in_use(self._held.values())

    def _plugin_resources(self, view: ContainerView) -> list[str]:
        """The resources that a container asks for and that a plugin has advertised, in random order."""
        with self._lock:
            known = self._resources.keys() | self._allocated.keys()
        return self._shuffled([name for name, count in view.limits.items() if count and name in known])

    def _shuffled(self, items: Collection[str]) -> list[str]:
        with self._lock:
            return self._rng.sample(sorted(items), len(items))

    def _save(self) -> None:
        DevicesCheckpoint(list(self._held.values()), sorted(self._resources)).save(self._checkpoint)
