"""Covered slices: containers in which a later mount hides the files that we mounted, so that no limit holds.

Admission refuses the known ways to do this. This check needs no admission: it reads the kernel's list of mounts soon
after a container started, and then every half minute.

A container that runs with none of our files was started without them, because its runtime has CDI off. The author of
its pod is not at fault, so the event is about the node.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from device_plugin.core.contract.events import Event
from device_plugin.node.api import NodeApi
from device_plugin.node.checks import mountinfo
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.checks.mountinfo import Mounted, Origin
from device_plugin.node.ports import HostProcesses
from device_plugin.node.slices.records import Record, Records

log = logging.getLogger(__name__)

# Seconds between looks at all containers. Only a privileged process could cover files after the start, or a volume that
# gets mounts from the host.
LOOK_SECONDS = 30.0
# A container that is about to start is looked at in each turn for SOON_SECONDS, and then, until its processes are seen,
# every SEEK_SECONDS for START_SECONDS.
SOON_SECONDS, START_SECONDS, SEEK_SECONDS = 5.0, 30.0, 3.0
# A file counts as covered after it was seen so for this long: a runtime that is still mounting shows only some of our
# files, or the old root over the new one, for seconds on a busy machine.
SURE_SECONDS = 15.0
# The problem of a container with too many mounts: one of those that were not read may cover our files.
UNREAD = "its pod has so many mounts that not all were read"
# Least seconds between two events that a runtime does not use our specs: any tenant can make a container look so.
NOT_MOUNTED_SECONDS = 3600.0
Files = Sequence[tuple[Path, str]]
"""The path of each file on this machine, and in the container."""


@dataclass(slots=True)
class _Container:
    """The findings about one container.

    `record` is the agent's record (state) of the container's latest start, and `started` is the time at which the agent
    first saw it. `identified` is true if a process of the container was found by its mounts since that start.
    """

    record: Record
    started: float
    identified: bool = False


class CoveredSlices:
    """Finds containers in which another mount hides our files, and containers without our files; posts events.

    A container stays covered until its record is removed, because volumes never change.
    """

    def __init__(
        self,
        records: Records,
        files: Callable[[Record], Files],
        processes: HostProcesses,
        api: NodeApi,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._files = files
        self._processes = processes
        self._api = api
        self._clock = clock
        self._next = self._looked = clock()
        # By pod UID and container name.
        self._containers: dict[tuple[str, str], _Container] = {}
        # Those that are covered, and those that run with none of our files, which ends with their next start.
        self._covered = Lasting[tuple[str, str]](clock, SURE_SECONDS)
        self._bare = Lasting[tuple[str, str]](clock, SURE_SECONDS)
        self._reported_runtime = -inf
        # By pod UID: hashes of mountinfo texts without a cover. All processes of a container have one text.
        self._sound: dict[str, set[int]] = {}

    def found(self) -> tuple[Record, ...]:
        """The containers, as the agent's records, whose files are covered by other mounts."""
        return tuple(each.record for key, each in list(self._containers.items()) if key in self._covered)

    def step(self) -> None:
        """Check the mounts of the containers that are due, and post an event for each problem that is found."""
        now = self._clock()
        self._note_starts(now)
        everyone = now >= self._next
        due = [
            each
            for key, each in self._containers.items()
            if key not in self._covered and (everyone or self._is_new(each, now))
        ]
        if everyone:
            self._next = now + LOOK_SECONDS
        if not due:
            return
        self._looked = now
        self._processes.look()
        own = mountinfo.parse(self._processes.own_mounts())
        sound: dict[str, set[int]] = {}
        by_pod: dict[str, list[_Container]] = {}
        for each in due:
            by_pod.setdefault(each.record.pod, []).append(each)
        for pod, members in by_pod.items():
            sound[pod] = self._look(members, own, self._sound.get(pod, set()))
        self._sound = sound if everyone else self._sound | sound

    def _note_starts(self, now: float) -> None:
        """Add containers for which the agent has a new record, and forget containers without a record.

        PreStartContainer writes a new record before each start.
        """
        before, found = self._containers, {}
        for record in self._records.all():
            each = found[record.key] = before.get(record.key) or _Container(record, now)
            if each.record is not record:
                each.record, each.started, each.identified = record, now, False
                self._bare.note(record.key, found=False)
        self._containers = found
        for findings in (self._covered, self._bare):
            findings.keep(found)

    def _is_new(self, container: _Container, now: float) -> bool:
        age, key = now - container.started, container.record.key
        if age < SOON_SECONDS or self._covered.unsure(key) or self._bare.unsure(key):
            return True
        return age < START_SECONDS and not container.identified and now - self._looked >= SEEK_SECONDS

    def _look(self, containers: Sequence[_Container], own: Sequence[Mounted], known: set[int]) -> set[int]:
        """Check the mounts of processes of these containers' pod, and report covers that have lasted long enough.

        A cover is a mount that hides our files. Returns the hashes of the mountinfo texts that show no problem. A text
        with a hash in `known` showed no problem at an earlier look, and is not parsed again. `own` are the agent's own
        mounts.
        """
        wanted = {each.record.key: self._wanted(each.record, own) for each in containers}
        wrong: dict[tuple[str, str], str] = {}
        bare: set[tuple[str, str]] = set()
        sound: set[int] = set()
        unread = False
        for process in self._processes.of(containers[0].record.pod):
            found = self._processes.mounts(process)
            if found is None:
                continue
            text, whole = found
            unread = unread or not whole
            digest = hash(text)
            if digest in known or digest in sound:
                sound.add(digest)
                continue
            mounts = mountinfo.parse(text)
            container = next((each for each in containers if _shows(mounts, wanted[each.record.key])), None)
            why = ""
            if container is not None:
                container.identified = True
                why = mountinfo.problem(mounts, wanted[container.record.key]) or ("" if whole else UNREAD)
            without = _without(containers, mounts, wanted) if container is None and whole else set()
            bare |= without
            if container is not None and why:
                wrong[container.record.key] = why
            elif whole and not without:
                sound.add(digest)
        for each in containers:
            key = each.record.key
            self._bare.note(key, found=key in bare and not each.identified)
            if key in self._bare:
                self._report_runtime(each.record)
            why = wrong.get(key, UNREAD if unread and not each.identified else "")
            if self._covered.note(key, found=bool(why)):
                self._report(each.record, why)
        return sound

    def _report_runtime(self, record: Record) -> None:
        now = self._clock()
        if now - self._reported_runtime < NOT_MOUNTED_SECONDS:
            return
        self._reported_runtime = now
        text = (
            f"container {record.container} of pod {record.namespace}/{record.pod_name} runs without its card: the"
            " container runtime did not read our CDI spec. See that its configuration has CDI on (containerd 1.7:"
            " enable_cdi = true), then create the pod again"
        )
        log.error("%s", text)
        self._api.node_event(Event.CDI_OFF, text)

    def _wanted(self, record: Record, own: Sequence[Mounted]) -> list[tuple[Origin, str]]:
        """The files that must be mounted in the container: the origin of each file, and its path in the container."""
        # An agent of another version may have written fewer files.
        written = ((source, path) for source, path in self._files(record) if source.exists())
        files = ((mountinfo.origin(own, str(source)), path) for source, path in written)
        return [(origin, path) for origin, path in files if origin is not None]

    def _report(self, record: Record, why: str) -> None:
        text = (
            f"container {record.container}: {why}: its limits may not hold."
            f" {'Use fewer mounts' if why == UNREAD else 'Remove the volume mount that does this'},"
            " and create the pod again"
        )
        log.error("pod %s/%s: %s", record.namespace, record.pod_name, text)
        self._api.pod_event(record.pod_ref, Event.SLICE_COVERED, text)


def _without(
    containers: Sequence[_Container],
    mounts: Sequence[Mounted],
    wanted: Mapping[tuple[str, str], Sequence[tuple[Origin, str]]],
) -> set[tuple[str, str]]:
    """The keys (pod UID, name) of the containers to which a process with these mounts belongs.

    The caller has seen that the process has none of our files mounted. Left out are containers of which another process
    was identified, and containers without `wanted` files.
    """
    return {
        each.record.key
        for each in containers
        if wanted[each.record.key] and not each.identified and mountinfo.is_of(mounts, *each.record.key)
    }


def _shows(mounts: Sequence[Mounted], wanted: Iterable[tuple[Origin, str]]) -> bool:
    """True if any of a container's `wanted` files is among these mounts; their process is then the container's."""
    origins = {origin for origin, _ in wanted}
    return any((mount.device, mount.root) in origins for mount in mounts)
