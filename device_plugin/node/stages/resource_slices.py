"""ResourceSlices: shows the node's cards as devices of our DRA drivers, one object for each card family.

The kubelet deletes the objects of its node when it starts, and 30 s after a driver's socket is gone. So the agent
follows them by a watch, and writes what is missing or was changed by others. Nothing is written while nothing changes.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import is_ours
from device_plugin.core.contract.resource_slices import StoredSlice, owned_by_node, resource_slice, slice_name
from device_plugin.kube.api import Change
from device_plugin.kube.errors import ApiError, ConflictError
from device_plugin.node.api import NodeApi

log = logging.getLogger(__name__)

FIRST_DELAY, LAST_DELAY = 0.5, 15.0


class ResourceSlices:
    """Keeps the ResourceSlices of the node's cards up to date. Safe from any thread; `step` is for one thread."""

    def __init__(self, api: NodeApi, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._lock = threading.Lock()
        # By name, as the API server last showed them; None before the first list.
        self._stored: dict[str, StoredSlice] | None = None
        # By name: what this agent wrote last, and the version that it got.
        self._written: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._delay = FIRST_DELAY
        self._not_before = 0.0
        self.why_not = ""

    def sync(self, found: Sequence[StoredSlice]) -> None:
        """Replace what is known by this full list of the node's ResourceSlices, those of other drivers included."""
        with self._lock:
            self._stored = {each.name: each for each in found if is_ours(each.driver)}

    def change(self, change: Change, found: StoredSlice) -> None:
        """Record a change of one of the node's ResourceSlices, unless a later one is known."""
        with self._lock:
            if not is_ours(found.driver) or self._stored is None:
                return
            known = self._stored.get(found.name)
            if known is not None and int(known.version) > int(found.version):
                return
            if change is Change.DELETED:
                self._stored.pop(found.name, None)
            else:
                self._stored[found.name] = found

    def step(self, cards: Sequence[Card]) -> None:
        """Write the ResourceSlices that differ from the cards, and delete those of families without a card.

        Does nothing before the first list, and during the pause after a failure. `why_not` is the reason why the cards
        are not shown, as text.
        """
        with self._lock:
            stored = None if self._stored is None else dict(self._stored)
        if stored is None:
            self.why_not = "the API server has not listed this node's ResourceSlices yet"
            return
        if self._clock() < self._not_before:
            return
        families: dict[str, list[Card]] = {}
        for card in cards:
            families.setdefault(card.family, []).append(card)
        wanted = {slice_name(self._node, family): family for family in families}
        try:
            for name, family in wanted.items():
                self._write(name, family, families[family], stored.get(name))
            for name in stored.keys() - wanted.keys():
                self._delete(name)
        except ApiError as error:
            self._fail(error)
            return
        self._delay, self.why_not = FIRST_DELAY, ""

    def _write(self, name: str, family: str, cards: Sequence[Card], stored: StoredSlice | None) -> None:
        """Write the ResourceSlice `name` of these cards, unless the `stored` one is up to date.

        It is up to date if this agent wrote it last, for the same cards.
        """
        bare = resource_slice(self._node, family, cards, 0)
        if stored is not None and self._written.get(name) == (bare, stored.version):
            return
        generation = stored.generation + 1 if stored is not None else 1
        body = resource_slice(self._node, family, cards, generation)
        node = self._api.node()
        now = self._api.write_slice(owned_by_node(body, node.uid) if node is not None else body, stored)
        self._written[name] = bare, now.version
        self.change(Change.MODIFIED, now)
        log.info("ResourceSlice %s shows %d cards", name, len(cards))

    def _delete(self, name: str) -> None:
        self._api.delete_slice(name)
        with self._lock:
            if self._stored is not None:
                self._stored.pop(name, None)
        self._written.pop(name, None)
        log.info("ResourceSlice %s is deleted: its card family has no card on this node any more", name)

    def _fail(self, error: ApiError) -> None:
        """Pause before the next write; after a conflict the watch shows what has changed."""
        text = f"the cards are not shown as devices: {error}"
        if text != self.why_not and not isinstance(error, ConflictError):
            log.warning("ResourceSlices: %s", text)
        self.why_not = text
        self._not_before = self._clock() + self._delay
        self._delay = min(2 * self._delay, LAST_DELAY)
