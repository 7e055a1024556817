"""Publish: writes the inventory annotation of the node when it changes, and never as a heartbeat."""

import logging
import time
from collections.abc import Callable, Sequence

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.events import Event
from device_plugin.core.errors import AnnotationError
from device_plugin.core.requests import resource_names
from device_plugin.node.api import NodeApi

log = logging.getLogger(__name__)

FIRST_DELAY, LAST_DELAY = 0.5, 15.0
# Seconds until an annotation that another program changed is written again.
LOOK_SECONDS = 60.0


class Publisher:
    """Keeps the node's inventory annotation up to date. While the API server does not answer, it tries again later."""

    def __init__(self, api: NodeApi, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: str | None = None
        self._looked = 0.0
        self._delay = FIRST_DELAY
        self._not_before = 0.0
        # The last time at which the annotation is known to have had the content that `step` was given.
        self._right = clock()
        # Families of which a new memory unit was reported.
        self._reported: set[str] = set()
        # The cordoned cards, as the node last said.
        self.cordons: frozenset[str] = frozenset()
        self.why_not = "the API server has not listed this node's pods yet: the inventory is published then"

    @property
    def age(self) -> float:
        """Seconds since the annotation was last known to have this agent's inventory; below 1 while all is well."""
        return self._clock() - self._right

    def step(self, inventory: Inventory) -> None:
        """Write the inventory if the annotation differs from it. Does nothing during the pause after a failure.

        `why_not` is the reason why the inventory is not published, as text.
        """
        now = self._clock()
        if now < self._not_before:
            return
        wanted = inventory.encode()
        if self._known is None or now - self._looked > LOOK_SECONDS:
            node = self._api.node()
            if node is None:
                self._later(now)
                return
            self._report_new_units(node.inventory, inventory.cards)
            self._known, self._looked, self.cordons = node.inventory, now, node.cordons()
        if self._known != wanted:
            if not self._api.publish(wanted):
                self._later(now)
                return
            self._known = wanted
            log.info(
                "published %d cards, %d reported slices, serving: %s",
                len(inventory.cards), len(inventory.slices), inventory.serving,
            )  # fmt: skip
        self._delay = FIRST_DELAY
        self._right = self._clock()
        self.why_not = ""

    def _report_new_units(self, before: str, cards: Sequence[Card]) -> None:
        """Post an event for each card family whose memory unit differs from its unit in the previous inventory.

        A memory unit is the number of MiB for which one of the family's memory resource stands. `before` is the
        previous inventory's text.
        """
        try:
            known = {card.family: card.unit_mib for card in Inventory.decode(before).cards} if before else {}
        except AnnotationError:
            return
        for family, unit in sorted({(card.family, card.unit_mib) for card in cards}):
            was = known.get(family, unit)
            if was != unit and family not in self._reported:
                self._reported.add(family)
                self._api.node_event(
                    Event.MEMORY_UNIT_CHANGED,
                    f"one {resource_names(family)[1]} is {unit} MiB on this node now, and was {was} MiB: running pods"
                    " keep what they have, pods that start from now on get another amount. Use one memUnitMiB on all"
                    " nodes",
                )

    def _later(self, now: float) -> None:
        self.why_not = "the API server does not answer: the inventory is published when it does"
        self._known = None
        self._not_before = now + self._delay
        self._delay = min(2 * self._delay, LAST_DELAY)
