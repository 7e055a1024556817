"""Renew: gets new ids from the vendor's driver for the slices of a container that has ended and may start again.

For a container that asked by limits, PreStartContainer gets the ids before each start. When a container that asked by a
ResourceClaim starts again, the kubelet does not call the agent. So the agent's loop gets the ids as soon as the
container's processes are gone. This may be too late for the first restart, which follows at once. Counters of dead
processes in the usage region need no renewal.
"""

import logging
import time
from collections.abc import Callable, Mapping

from device_plugin.node.checks import mountinfo
from device_plugin.node.ports import HostProcesses
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.stages.inject import Injector
from device_plugin.node.stages.start import Starter
from device_plugin.node.vendors.port import NoVendorIdError

log = logging.getLogger(__name__)

# Seconds between two looks for the processes of containers that have none yet.
SEEK_SECONDS = 3.0


class Renewer:
    """Gets new ids from the vendor's driver for the slices of a container with a ResourceClaim, before it starts again.

    Call `step` about every half second.
    """

    def __init__(
        self,
        records: Records,
        pods: NodePods,
        processes: HostProcesses,
        injector: Injector,
        starter: Starter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._pods = pods
        self._processes = processes
        self._injector = injector
        self._starter = starter
        self._clock = clock
        self._seek_at = 0.0
        # By pod UID and container name: the cgroup of the container that runs.
        self._running: dict[tuple[str, str], str] = {}
        # By pod UID: the cgroups with processes at the latest step.
        self._before: dict[str, frozenset[str]] = {}

    def step(self) -> None:
        """Renew the slices' driver ids of each container whose processes ended since the latest step.

        A container that may be starting again already is left alone. No process is read while no container has both a
        ResourceClaim and such ids.
        """
        records = [each for each in self._records.all() if each.claim and each.vendor_ids]
        keys = {record.key for record in records}
        self._running = {key: cgroup for key, cgroup in self._running.items() if key in keys}
        if not records:
            self._before = {}
            return
        self._processes.look()
        cgroups = {pod: self._cgroups(pod) for pod in {record.pod for record in records}}
        for record in records:
            now = cgroups[record.pod]
            last = self._running.get(record.key)
            if last is not None and last not in now:
                del self._running[record.key]
                # A cgroup that is new may be the container's next start, which has read its files.
                if now.keys() <= self._before.get(record.pod, frozenset()) and self._pods.stays(record.pod):
                    self._renew(record)
        self._before = {pod: frozenset(found) for pod, found in cgroups.items()}
        if self._clock() >= self._seek_at:
            self._seek_at = self._clock() + SEEK_SECONDS
            for record in records:
                self._seek(record, cgroups[record.pod])

    def _cgroups(self, pod: str) -> Mapping[str, int]:
        """By cgroup, one process of each container of the pod; containers without processes are left out."""
        found: dict[str, int] = {}
        for process in self._processes.of(pod, 1):
            container = self._processes.container(process)
            if container is not None and container[0] == pod:
                found[container[1]] = process
        return found

    def _seek(self, record: Record, cgroups: Mapping[str, int]) -> None:
        """Find which of `cgroups` is the container's, by the mounts of a process in each, if that is not known yet."""
        if record.key in self._running:
            return
        for cgroup, process in cgroups.items():
            mounts = self._processes.mounts(process)
            if mounts is not None and mountinfo.is_of(mountinfo.parse(mounts[0]), *record.key):
                self._running[record.key] = cgroup

    def _renew(self, record: Record) -> None:
        try:
            with self._starter.lock:
                if self._records.get(*record.key) == record:
                    self._injector.renew(record)
        except NoVendorIdError as error:
            log.warning("%s of pod %s/%s: %s", record.container, record.namespace, record.pod_name, error)
