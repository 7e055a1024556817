"""Publish: the inventory annotation, written when it changes and never as a heartbeat."""

import logging
import time
from collections.abc import Callable, Sequence

from device_plugin.core.cards import Card, Inventory, ReportedSlice
from device_plugin.node.ports import Api

log = logging.getLogger(__name__)

FIRST_DELAY, LAST_DELAY = 0.5, 15.0
# An annotation that somebody else has changed is put right within this time.
LOOK_SECONDS = 60.0


class Publisher:
    """Brings the annotation up to what it should be, and tries again later when the API server does not answer."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: str | None = None
        self._looked = 0.0
        self._delay = FIRST_DELAY
        self._not_before = 0.0
        self.why_not = "the API server has not listed this node's pods yet: the inventory is published then"

    def step(self, cards: Sequence[Card], reports: Sequence[ReportedSlice] = (), *, serving: bool) -> None:
        """Write the inventory if the API server has another one. `why_not` says what stands in the way."""
        now = self._clock()
        if now < self._not_before:
            return
        wanted = Inventory(tuple(cards), serving, tuple(reports)).encode()
        if self._known is None or now - self._looked > LOOK_SECONDS:
            node = self._api.node()
            if node is None:
                self._later(now)
                return
            self._known, self._looked = node.inventory, now
        if self._known != wanted:
            if not self._api.publish(wanted):
                self._later(now)
                return
            self._known = wanted
            log.info("published %d cards, %d reported slices, serving: %s", len(cards), len(reports), serving)
        self._delay = FIRST_DELAY
        self.why_not = ""

    def _later(self, now: float) -> None:
        self.why_not = "the API server does not answer: the inventory is published when it does"
        self._known = None
        self._not_before = now + self._delay
        self._delay = min(2 * self._delay, LAST_DELAY)
