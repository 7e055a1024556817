"""Reclaim: removes files of containers that are gone, and restores damaged records (state) of other containers."""

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence

from device_plugin.core.contract.cards import AGENT_SECONDS
from device_plugin.core.contract.events import Event
from device_plugin.kube.errors import ApiError
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.claim_users import ClaimUsers
from device_plugin.node.slices import admission
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.writable import WritableFiles
from device_plugin.node.stages.inject import Injector
from device_plugin.node.stages.start import Starter
from vgpu_runtime.paths import CONTAINER_PROGRESS, CONTAINER_REGION

log = logging.getLogger(__name__)

# Seconds between reads of the grants of damaged records from the API server.
RETRY_SECONDS = 10.0
# Times that the files of a container are cut before its pod gets an event.
TOLD_CUTS = 3


class Reclaimer:
    """Removes the files of pods that have ended and have no processes, and lists slices that outlive their pod.

    A damaged record is restored from its pod's grant, without tickets and CDI names: the container's next start writes
    a whole record.
    """

    def __init__(
        self,
        records: Records,
        writable: WritableFiles,
        injector: Injector,
        pods: NodePods,
        starter: Starter,
        api: NodeApi,
        users: ClaimUsers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._writable = writable
        self._injector = injector
        self._pods = pods
        self._starter = starter
        self._api = api
        self._users = users
        self._clock = clock
        self._uncut: set[str] = set()
        # By pod UID and container name.
        self._cuts: dict[tuple[str, str], int] = {}
        # By pod UID: the time when a sweep first saw that the pod had ended. None before the first sweep.
        self._ended: dict[str, float] | None = None
        self._outliving: tuple[Record, ...] = ()
        self._restore_at = 0.0
        self._reported: set[tuple[str, str]] = set()

    @property
    def ready(self) -> bool:
        """True after the first sweep: from then on outliving() is complete."""
        return self._ended is not None

    def outliving(self) -> tuple[Record, ...]:
        """The records (states) of containers whose pods ended AGENT_SECONDS ago or earlier and still had processes."""
        return self._outliving

    def sweep(self) -> int:
        """Remove the files of containers that are gone; returns the number of these containers.

        Also finds the slices that outlive their pods. Does nothing, and returns 0, before the first list of pods.
        """
        if not self._pods.synced.is_set():
            return 0
        ended = [r for r in self._records.all() if not self._pods.active(r.pod)]
        alive = {uid for uid in {record.pod for record in ended} if self._pods.running(uid)}
        # A claim ends before its pod does, and its record with it: seldom is one left here to be looked at.
        lingering = [r for r in ended if r.pod in alive or (r.claim and self._users.using(r))]
        self._note(lingering)
        return sum(self._remove(record) for record in ended if record not in lingering)

    def _note(self, lingering: Sequence[Record]) -> None:
        """Note when the pods of the `lingering` containers ended, and which of these containers outlive their pods.

        A lingering container is still in use although its pod has ended. The pods that the first sweep finds count as
        ended long ago: the previous agent may have reported them.
        """
        now = self._clock()
        before = self._ended
        self._ended = {
            record.pod: -math.inf if before is None else before.get(record.pod, now) for record in lingering
        }
        late = {uid for uid, since in self._ended.items() if now - since >= AGENT_SECONDS}
        for record in lingering:
            if record.pod in late and record not in self._outliving:
                log.warning(
                    "pod %s/%s has ended, and processes of it still run: its slices are not free",
                    record.namespace,
                    record.pod_name,
                )
        self._outliving = tuple(record for record in lingering if record.pod in late)

    def _remove(self, record: Record) -> bool:
        with self._starter.lock:
            # Since the sweep looked, the container may have been prepared again.
            if self._pods.holding(record.pod):
                return False
            now = self._records.get(*record.key)
            if now is None:
                return False
            self._injector.remove(now)
            if self._records.get(*now.key) is not None:
                return False  # files are left, which `forget` has logged
            log.info(
                "pod %s/%s container %s is gone, so are its files", now.namespace, now.pod_name, now.container
            )
            return True

    def closed(self, cards: Collection[str]) -> frozenset[str]:
        """The uuids of cards that get no new slices: a container whose record (state) is damaged may run on them."""
        return frozenset().union(*(damaged.closed(cards) for damaged in self._records.damaged().values()))

    def restore(self) -> None:
        """Restore containers' damaged records from their pods' grants, and post an event for each damaged record.

        A damaged record is forgotten when its pod and all processes of the pod are gone. Does nothing before the first
        list of pods.
        """
        damaged = self._records.damaged()
        if not damaged or not self._pods.synced.is_set():
            return
        due = self._clock() >= self._restore_at
        if due:
            self._restore_at = self._clock() + RETRY_SECONDS
        for key, found in damaged.items():
            if key not in self._reported:
                self._reported.add(key)
                self._api.node_event(
                    Event.RECORD_DAMAGED,
                    f"the record of container {key[1]} of pod {key[0]} cannot be read: {found.why}. Its cards get no"
                    " new slices until it is made again from the pod's grant, or its processes end",
                )
            named = self._pods.name(key[0])
            if named is None:
                self._forget(key)
            elif due:
                self._restore(key, named)

    def _forget(self, key: tuple[str, str]) -> None:
        with self._starter.lock:
            if self._records.get(*key) is None and not self._pods.holding(key[0]):
                self._injector.forget(key)

    def _restore(self, key: tuple[str, str], named: tuple[str, str]) -> None:
        uid, container = key
        try:
            wanted = admission.from_pod(self._api.pod(*named), container, {})
        except (ApiError, NotNowError) as error:
            log.warning(
                "the record of container %s of pod %s/%s cannot be restored: %s", container, *named, error
            )
            return
        with self._starter.lock:
            # Its container may have started again, which wrote the record, or be another pod of that name.
            if wanted.pod == uid and self._records.get(*key) is None:
                self._injector.restore(wanted)
                log.info("the record of container %s of pod %s/%s is restored", container, *named)

    def trim(self) -> None:
        """Cut writable files that tenants have made longer, and refill writable files that tenants have shortened.

        A container whose files are cut again and again gets an event.
        """
        records = self._records.all()
        self._uncut &= {record.pod for record in records}
        self._cuts = {record.key: self._cuts.get(record.key, 0) for record in records}
        for record in records:
            try:
                grown = self._writable.cut(record.key)
            except OSError as error:
                if record.pod not in self._uncut:
                    self._uncut.add(record.pod)
                    log.warning(
                        "the usage region or the progress file of pod %s/%s may grow: it cannot be cut (%s)",
                        record.namespace,
                        record.pod_name,
                        error,
                    )
                continue
            if grown:
                self._report_growth(record, grown)
        self._writable.restore()

    def _report_growth(self, record: Record, grown: int) -> None:
        """Log that a container's writable files were `grown` bytes too long and were cut.

        The container's first cut is logged; its cut number TOLD_CUTS is logged and posted as an event. Other cuts are
        not reported.
        """
        self._cuts[record.key] += 1
        cuts = self._cuts[record.key]
        text = (
            f"container {record.container}: its usage region or its progress file was {grown >> 10} KiB too long, and"
            " was cut"
        )
        if cuts == TOLD_CUTS:
            text += (
                f", as often before: see which of its programs writes to {CONTAINER_REGION} or {CONTAINER_PROGRESS}."
                " The agent goes on cutting them every few seconds, and does not report it again"
            )
            self._api.pod_event(record.pod_ref, Event.WRITABLE_FILES_GROWN, text)
        if cuts in (1, TOLD_CUTS):
            log.warning("pod %s/%s: %s", record.namespace, record.pod_name, text)

    def sweep_unrecorded(self) -> None:
        """Remove our CDI specs and writable files that belong to no known container."""
        with self._starter.lock:
            self._injector.withdraw(self._injector.unrecorded())
            self._writable.keep([*(record.key for record in self._records.all()), *self._records.damaged()])
