"""The device manager: tickets of every resource, who holds them, and the calls to plugins.

Follows pkg/kubelet/cm/devicemanager/manager.go of Kubernetes 1.36.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hack.embedded.kubelet import pod_spec
from hack.embedded.kubelet.endpoint import Allocated, PluginEndpoint, PluginError
from hack.embedded.kubelet.pod_devices import HeldDevices, PodDevices
from hack.embedded.kubelet.pod_spec import ContainerView, Json
from hack.embedded.kubelet.timing import KubeletTiming


class AllocationError(Exception):
    """A container cannot have its tickets; the text is the kubelet's."""


@dataclass(slots=True)
class _Resource:
    """The state of one advertised resource. `endpoint` is None after a restart until its plugin registers again.

    `told_sick` are the unhealthy devices of the plugin's last list; while the plugin is away all are `unhealthy`.
    """

    told_sick: frozenset[str] = frozenset()
    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)
    endpoint: PluginEndpoint | None = None
    stopped_at: float | None = None


class DeviceManager:
    """Tickets of one kubelet life. `active` tells which pods still count; `changed` is called when capacity may have.

    `during_allocate` is the number of PodResources List calls that arrived during an Allocate: on a real kubelet
    each can make it hand the same tickets out twice (kubernetes#137534), so tests assert that it stays 0.
    """

    def __init__(
        self,
        checkpoint: Path,
        rng: random.Random,
        timing: KubeletTiming,
        active: Callable[[], Collection[str]],
        changed: Callable[[], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._rng = rng
        self._timing = timing
        self._active = active
        self._changed = changed
        self._lock = threading.Lock()
        self._resources: dict[str, _Resource] = {}
        self._gone: set[str] = set()
        self._held = PodDevices()
        self._allocated: dict[str, set[str]] = {}
        self._allocating = False
        self.during_allocate = 0
        for resource in self._held.load(checkpoint):
            self._resources[resource] = _Resource(stopped_at=time.monotonic())
        self._allocated = self._held.in_use()

    # Calls of plugins (registration.Plugins)

    def connected(self, endpoint: PluginEndpoint) -> None:
        """Record the endpoint of a plugin that registered; its devices come with its first list."""
        with self._lock:
            resource = self._resources.setdefault(endpoint.resource, _Resource())
            resource.endpoint, resource.stopped_at = endpoint, None
            self._gone.discard(endpoint.resource)
        self._changed()

    def devices(self, resource: str, health: Mapping[str, bool]) -> None:
        """A plugin's list of devices: it replaces the earlier one."""
        with self._lock:
            entry = self._resources.setdefault(resource, _Resource())
            entry.healthy = {name for name, healthy in health.items() if healthy}
            entry.unhealthy = set(health) - entry.healthy
            entry.told_sick = frozenset(entry.unhealthy)
            self._save()
        self._changed()

    def disconnected(self, resource: str) -> None:
        """A plugin went away: none of its devices is healthy, and its capacity ends after a grace period."""
        with self._lock:
            entry = self._resources.get(resource)
            if entry is None:
                return
            entry.unhealthy |= entry.healthy
            entry.healthy = set()
            entry.stopped_at = time.monotonic()
            if entry.endpoint is not None:
                entry.endpoint.stopped_at = entry.stopped_at
        self._changed()

    # The resources in the Node object

    def capacity(self) -> dict[str, tuple[int, int]]:
        """(capacity, allocatable) by resource; (0, 0) for one whose plugin went away for good."""
        with self._lock:
            late = time.monotonic() - self._timing.endpoint_grace
            for name, entry in list(self._resources.items()):
                if entry.stopped_at is not None and entry.stopped_at < late:
                    del self._resources[name]
                    self._gone.add(name)
                    self._save()
            counts = {
                name: (len(entry.healthy) + len(entry.unhealthy), len(entry.healthy))
                for name, entry in self._resources.items()
            }
            return counts | dict.fromkeys(self._gone, (0, 0))

    def allocatable(self) -> dict[str, set[str]]:
        """The healthy devices by resource."""
        with self._lock:
            return {name: set(entry.healthy) for name, entry in self._resources.items()}

    # Allocation for pods

    def allocate(self, pod: Json, running: Collection[str]) -> None:
        """Give every container of a pod its tickets: the admission of one pod; one at a time.

        Containers in `running` were alive when the kubelet started and keep what they have. Raises AllocationError.
        """
        reusable: dict[str, set[str]] = {}
        for view in pod_spec.containers(pod):
            self._allocate_container(pod_spec.uid(pod), view, reusable, running)
            for resource, holding in self.holdings(pod_spec.uid(pod), view.name).items():
                if view.init and not view.sidecar:
                    reusable.setdefault(resource, set()).update(holding.ids)
                else:
                    reusable.get(resource, set()).difference_update(holding.ids)

    def pre_start(self, pod: str, view: ContainerView) -> Allocated:
        """Call PreStartContainer where it is wanted; returns what the container gets. Raises PluginError."""
        env: dict[str, str] = {}
        cdi: list[str] = []
        for resource in self._shuffled(view.limits):
            with self._lock:
                entry, holding = self._resources.get(resource), self._held.get(pod, view.name, resource)
            if not self._is_plugin_resource(resource) or not view.limits[resource]:
                continue
            if entry is None:
                raise PluginError(f"endpoint not found in cache for a registered resource: {resource}")
            # An endpoint that is known from the checkpoint only has no options: the real kubelet skips the call, too.
            if entry.endpoint is not None and entry.endpoint.pre_start_required:
                if holding is None:
                    raise PluginError(
                        f"no devices found allocated in local cache for pod {pod}, container {view.name},"
                        f" resource {resource}"
                    )
                entry.endpoint.pre_start(self._shuffled(holding.ids), self._timing.pre_start)
        held = self.holdings(pod, view.name)
        gone = [name for name in view.limits if name not in held and self._is_plugin_resource(name)]
        if gone:  # the pod was deleted meanwhile
            raise PluginError(
                f"no devices found allocated in local cache for pod {pod}, container {view.name}, resource {min(gone)}"
            )
        for holding in held.values():
            env.update(holding.answer.env)
            cdi.extend(holding.answer.cdi_devices)
        return Allocated(env, tuple(cdi))

    def holdings(self, pod: str, container: str) -> dict[str, HeldDevices]:
        """The tickets of one container by resource."""
        with self._lock:
            return self._held.of(pod, container)

    def health(self, pod: str, container: str) -> list[Json]:
        """The allocatedResourcesStatus of one container: the last health of its tickets."""
        told: list[Json] = []
        for name, holding in sorted(self.holdings(pod, container).items()):
            with self._lock:
                entry = self._resources.get(name)
            sick = entry.told_sick if entry is not None else frozenset()
            tickets = [
                {"resourceID": ticket, "health": "Unhealthy" if ticket in sick else "Healthy"}
                for ticket in sorted(holding.ids)
            ]
            told.append({"name": name, "resources": tickets})
        return told

    def listed(self) -> None:
        """PodResources List was called."""
        with self._lock:
            self.during_allocate += self._allocating

    def _allocate_container(
        self, pod: str, view: ContainerView, reusable: Mapping[str, set[str]], running: Collection[str]
    ) -> None:
        updated = False
        for resource in self._shuffled(view.limits):
            if not self._is_plugin_resource(resource):
                continue
            if not updated:
                self._free_inactive(pod)
                updated = True
            with self._lock:
                ids = self._choose(pod, view, resource, reusable.get(resource, set()), running)
                if not ids:
                    continue
                self._allocated.setdefault(resource, set()).update(ids)
                endpoint = self._resources[resource].endpoint
            answer = self._ask(resource, endpoint, ids)
            with self._lock:
                self._held.put(pod, view.name, resource, HeldDevices(frozenset(ids), answer))
                self._save()

    def _ask(self, resource: str, endpoint: PluginEndpoint | None, ids: set[str]) -> Allocated:
        with self._lock:
            self._allocating = True
        try:
            if endpoint is None:
                raise PluginError(f"endpoint {resource} has been stopped")
            return endpoint.allocate(self._shuffled(ids))
        except PluginError as error:
            with self._lock:
                self._allocated = self._held.in_use()
            raise AllocationError(str(error)) from None
        finally:
            with self._lock:
                self._allocating = False

    def _choose(
        self, pod: str, view: ContainerView, resource: str, reusable: set[str], running: Collection[str]
    ) -> set[str]:
        """Tickets to allocate now; none if the container holds its own already. Raises AllocationError."""
        held = self._held.get(pod, view.name, resource)
        if held is not None and view.name in running:
            return set()
        entry = self._resources.get(resource)
        if entry is None:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        if not entry.healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if held is not None:
            if not held.ids <= entry.healthy:
                raise AllocationError(
                    f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
                )
            return set()
        wanted = view.limits[resource]
        first = self._rng.sample(sorted(reusable), min(wanted, len(reusable)))
        free = sorted(entry.healthy - self._allocated.get(resource, set()))
        missing = wanted - len(first)
        if len(free) < missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. Requested: {missing}, Available: {len(free)}"
            )
        return {*first, *self._rng.sample(free, missing)}

    def _free_inactive(self, admitting: str) -> None:
        active = {*self._active(), admitting}
        with self._lock:
            ended = self._held.pods() - active
            if ended:
                self._held.remove(ended)
                self._allocated = self._held.in_use()

    def _is_plugin_resource(self, resource: str) -> bool:
        with self._lock:
            return resource in self._resources or resource in self._allocated

    def _shuffled(self, items: Collection[str]) -> list[str]:
        with self._lock:
            return self._rng.sample(sorted(items), len(items))

    def _save(self) -> None:
        self._held.save(self._checkpoint, self._resources)
