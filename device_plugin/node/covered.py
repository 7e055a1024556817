"""Covered slices: containers in which a later mount hides the files that we mounted, so that no limit holds.

Admission refuses what is known to do this. This is the second fence, which needs no admission: it looks at what the
kernel has mounted, soon after a container started and then every half minute.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from device_plugin.core.events import Event
from device_plugin.core.pods import Pod
from device_plugin.node import mountinfo
from device_plugin.node.api import NodeApi
from device_plugin.node.mountinfo import Mounted, Origin
from device_plugin.node.ports import HostProcesses
from device_plugin.node.records import Record, Records

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
Files = Sequence[tuple[Path, str]]
"""For each file its path on this machine, and in the container."""


class CoveredSlices:
    """Finds containers whose files are covered; they stay so until their record goes, as volumes never change."""

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
        # By container: its record of the last start, and the time when that record was first seen.
        self._started: dict[tuple[str, str], tuple[Record, float]] = {}
        self._identified: set[tuple[str, str]] = set()
        # By container: the time when a cover was first seen.
        self._suspected: dict[tuple[str, str], float] = {}
        self._covered: dict[tuple[str, str], Record] = {}
        # By pod UID: hashes of mountinfo texts without a cover. All processes of a container have one text.
        self._sound: dict[str, set[int]] = {}

    def found(self) -> tuple[Record, ...]:
        """Containers that are covered."""
        return tuple(self._covered.values())

    def step(self) -> None:
        """Check the containers that are due."""
        now = self._clock()
        records = self._records.all()
        self._note_starts(records, now)
        everyone = now >= self._next
        due = [r for r in records if r.key not in self._covered and (everyone or self._is_new(r, now))]
        if everyone:
            self._next = now + LOOK_SECONDS
        if not due:
            return
        self._looked = now
        self._processes.look()
        own = self._own_mounts()
        sound: dict[str, set[int]] = {}
        by_pod: dict[str, list[Record]] = {}
        for record in due:
            by_pod.setdefault(record.pod, []).append(record)
        for pod, members in by_pod.items():
            sound[pod] = self._look(members, own, self._sound.get(pod, set()))
        self._sound = sound if everyone else self._sound | sound

    def _note_starts(self, records: Iterable[Record], now: float) -> None:
        """Record new starts of containers: PreStartContainer writes a new record before each start."""
        before = self._started
        self._started = {}
        for record in records:
            known = before.get(record.key)
            if known is None or known[0] is not record:
                self._identified.discard(record.key)
                known = record, now
            self._started[record.key] = known
        self._identified &= self._started.keys()
        self._suspected = {key: since for key, since in self._suspected.items() if key in self._started}
        self._covered = {key: record for key, record in self._covered.items() if key in self._started}

    def _is_new(self, record: Record, now: float) -> bool:
        age = now - self._started[record.key][1]
        if record.key in self._suspected:
            return True
        seeking = age < START_SECONDS and record.key not in self._identified
        return age < SOON_SECONDS or (seeking and now - self._looked >= SEEK_SECONDS)

    def _look(self, records: Sequence[Record], own: Sequence[Mounted], known: set[int]) -> set[int]:
        """Check a few processes of each container of one pod; returns the hashes of mountinfo texts without a cover.

        A text of which the hash is `known` to be sound is not read again.
        """
        wanted = {record.key: self._wanted(record, own) for record in records}
        wrong: dict[tuple[str, str], str] = {}
        sound: set[int] = set()
        unread = False
        for process in self._processes.of(records[0].pod):
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
            record = next((r for r in records if _shows(mounts, wanted[r.key])), None)
            if record is not None:
                self._identified.add(record.key)
            why = mountinfo.problem(mounts, wanted[record.key]) if record is not None else ""
            if record is not None and (why or not whole):
                wrong[record.key] = why or UNREAD
            elif whole:
                sound.add(digest)
        for record in records:
            unseen = unread and record.key not in self._identified
            self._judge(record, wrong.get(record.key, UNREAD if unseen else ""))
        return sound

    def _judge(self, record: Record, why: str) -> None:
        if not why:
            self._suspected.pop(record.key, None)
            return
        now = self._clock()
        if now - self._suspected.setdefault(record.key, now) >= SURE_SECONDS:
            self._suspected.pop(record.key)
            self._covered[record.key] = record
            self._tell(record, why)

    def _wanted(self, record: Record, own: Sequence[Mounted]) -> list[tuple[Origin, str]]:
        """The files that the container was started with, which may be fewer under an older agent."""
        written = ((source, path) for source, path in self._files(record) if source.exists())
        files = ((mountinfo.origin(own, str(source)), path) for source, path in written)
        return [(origin, path) for origin, path in files if origin is not None]

    def _own_mounts(self) -> Sequence[Mounted]:
        return mountinfo.parse(self._processes.own_mounts())

    def _tell(self, record: Record, why: str) -> None:
        text = (
            f"container {record.container}: {why}: its limits may not hold."
            f" {'Use fewer mounts' if why == UNREAD else 'Remove the volume mount that does this'},"
            " and create the pod again"
        )
        log.error("pod %s/%s: %s", record.namespace, record.pod_name, text)
        self._api.pod_event(Pod(record.namespace, record.pod_name, record.pod), Event.SLICE_COVERED, text)


def _shows(mounts: Sequence[Mounted], wanted: Iterable[tuple[Origin, str]]) -> bool:
    """True if any of the files is mounted: then this is a process of the container that they are for."""
    origins = {origin for origin, _ in wanted}
    return any((mount.device, mount.root) in origins for mount in mounts)
