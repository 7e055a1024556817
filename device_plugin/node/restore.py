"""Restore: records that were damaged on the disk are made anew from the grants of their pods."""

import logging
import time
from collections.abc import Callable

from device_plugin.core.events import Event
from device_plugin.node import claims
from device_plugin.node.allocate import Allocator
from device_plugin.node.claims import NotNowError
from device_plugin.node.inject import Injector
from device_plugin.node.ports import Api, PodLookupError, Processes
from device_plugin.node.reclaim import ActivePods
from device_plugin.node.records import Record, Records

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0


class Restorer:
    """Makes damaged records anew while their pods live, and removes what is left of those that ended.

    Tickets and CDI names are not known again before the next start of the container, which writes all of its record.
    """

    def __init__(
        self,
        records: Records,
        injector: Injector,
        pods: ActivePods,
        processes: Processes,
        allocator: Allocator,
        api: Api,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._injector = injector
        self._pods = pods
        self._processes = processes
        self._allocator = allocator
        self._api = api
        self._clock = clock
        self._not_before = 0.0
        self._told: set[tuple[str, str]] = set()

    def step(self) -> None:
        """Restore what can be restored now. Does nothing before the first list of pods."""
        damaged = self._records.damaged()
        if not damaged or not self._pods.synced.is_set() or self._clock() < self._not_before:
            return
        self._not_before = self._clock() + RETRY_SECONDS
        for key, why in damaged.items():
            if key not in self._told:
                self._told.add(key)
                self._api.node_event(
                    Event.RECORD_DAMAGED,
                    f"the record of container {key[1]} of pod {key[0]} cannot be read: {why}",
                )
            self._restore(key)

    def _restore(self, key: tuple[str, str]) -> None:
        uid, container = key
        named = self._pods.name(uid)
        if named is None:
            if not self._processes.live(uid):
                with self._allocator.lock:
                    if self._records.get(*key) is None:
                        self._records.forget(*key)
            return
        try:
            claim = claims.from_pod(self._api.pod(*named), container, "")
        except (PodLookupError, NotNowError) as error:
            log.warning(
                "the record of container %s of pod %s/%s cannot be restored: %s", container, *named, error
            )
            return
        with self._allocator.lock:
            # Its container may have started again, which wrote the record, or be another pod of that name.
            if claim.pod == uid and self._records.get(*key) is None:
                ids = self._injector.claimed(key, claim.slices)
                self._records.put(
                    Record(uid, claim.namespace, claim.pod_name, container, claim.slices, vendor_ids=ids)
                )
                log.info("the record of container %s of pod %s/%s is restored", container, *named)
