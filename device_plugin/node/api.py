"""The agent's calls to the API server: its node, the inventory on it, its pods, and events."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from device_plugin.core.contract import annotations
from device_plugin.core.contract.annotations import MAX_CARDS
from device_plugin.core.contract.claims import Allocation
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.resource_slices import StoredSlice
from device_plugin.core.pods import Node, Pod
from device_plugin.core.token_bucket import TokenBucket
from device_plugin.kube.api import ALLOCATIONS, NODES, PODS, RESOURCE_SLICES, Api, Kind, Named, Object, Ref
from device_plugin.kube.errors import ApiError, GoneError

log = logging.getLogger(__name__)

# Events of one reason that may be posted at once: one for each card. Then one more every REFILL_SECONDS.
BURST = MAX_CARDS
REFILL_SECONDS = 300.0


class NodeApi:
    """Calls the API server for the agent of one node. A failed write of the inventory or of an event is only logged.

    Safe from any thread. `clock` is monotonic, in seconds.
    """

    def __init__(self, api: Api, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._ref = Ref(name)
        self._lock = threading.Lock()
        self._budget = EventBudget(clock)

    def pod(self, namespace: str, name: str) -> Pod:
        """The pod of this name as the API server has it now.

        Raises ApiError; UnknownError if the server gave no clear answer.
        """
        return self._api.get(PODS, Ref(name, namespace))

    def allocation(self, namespace: str, name: str) -> Allocation:
        """The allocation of the ResourceClaim of this name as the API server has it now.

        Raises ApiError; UnknownError if the server gave no clear answer.
        """
        return self._api.get(ALLOCATIONS, Ref(name, namespace))

    def node(self) -> Node | None:
        """The node of the agent as it is now; None if it cannot be read."""
        try:
            return self._api.get(NODES, self._ref)
        except GoneError:
            log.warning("the API server has no node %s: is nodeName right?", self._ref.name)
        except ApiError as error:
            log.warning("reading node %s: %s", self._ref.name, error)
        return None

    def publish(self, inventory: str) -> bool:
        """Write the inventory to the node's annotation; returns False, and logs why, if the write failed."""
        try:
            self._api.patch(NODES, self._ref, {"metadata": {"annotations": {annotations.CARDS: inventory}}})
        except ApiError as error:
            log.warning("publishing the inventory: %s", error)
            return False
        return True

    def write_slice(self, body: Object, stored: StoredSlice | None) -> StoredSlice:
        """Create the ResourceSlice, or replace the `stored` one; returns it as the API server has stored it.

        Raises ApiError: a ConflictError if `stored` is None and the ResourceSlice exists, or if it was changed after
        `stored`.
        """
        if stored is None:
            return self._api.create(RESOURCE_SLICES, body)
        metadata = {**body["metadata"], "resourceVersion": stored.version}
        return self._api.replace(RESOURCE_SLICES, Ref(stored.name), {**body, "metadata": metadata})

    def delete_slice(self, name: str) -> None:
        """Delete the ResourceSlice of this name, unless it is gone. Raises ApiError."""
        with suppress(GoneError):
            self._api.delete(RESOURCE_SLICES, Ref(name))

    def node_event(self, event: Event, message: str) -> None:
        """Write an event about the node, unless too many events with the same reason were written.

        Callers log the message too. The event has the node's name as the node's UID, as the kubelet's own events do.
        """
        with self._lock:
            if not self._budget.take(event):
                return
        self._post(NODES, Ref(self._ref.name, uid=self._ref.name), event, message)

    def pod_event(self, pod: Named, event: Event, message: str) -> bool:
        """Write an event about a pod; False if that failed."""
        return self._post(PODS, pod, event, message)

    def _post(self, kind: Kind[Any], of: Named, event: Event, message: str) -> bool:
        try:
            self._api.post_event(kind, of, event, message, warning=event.about.warning)
        except ApiError as error:
            log.warning("event %s: %s", event, error)
            return False
        return True


class EventBudget:
    """Limits how many events of each reason are written about the node: a fault may come and go without end.

    Each reason has a token bucket. `clock` is monotonic, in seconds. Safe only under the caller's lock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[Event, TokenBucket] = {}

    def take(self, event: Event) -> bool:
        """True if an event of this reason may be posted now; it then counts as posted."""
        if event not in self._buckets:
            self._buckets[event] = TokenBucket(1 / REFILL_SECONDS, BURST, self._clock)
        return self._buckets[event].take()
