"""The terms of leadership: all pods and nodes are listed before the first place, and nothing stays reserved after."""

import logging
from collections.abc import Callable

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Api, ApiError
from device_plugin.cluster.state import State

log = logging.getLogger(__name__)


class Terms:
    """Call `step` about once a second; it only reads from the API server."""

    def __init__(
        self, api: Api, leader: Leader, state: State, clock: Callable[[], float], lease: tuple[str, str]
    ) -> None:
        self._api = api
        self._leader = leader
        self._state = state
        self._clock = clock
        self._lease = lease

    def step(self) -> None:
        """Read the Lease, and begin or end a term."""
        started = self._clock()
        try:
            lease = self._api.lease(*self._lease)
        except ApiError as error:
            self._leader.missed(str(error))
        else:
            if not self._leader.fenced():
                # Whatever this read shows: another replica may have led since the fence fell.
                self._end()
            self._leader.observe(lease, started)
        if not self._leader.fenced():
            self._end()
        elif not self._leader.term:
            self._begin()

    def _begin(self) -> None:
        try:
            nodes, pods = self._api.nodes(), self._api.pods()
        except ApiError as error:
            log.warning("leading, but the cluster cannot be listed: %s", error)
            return
        with self._state.lock:
            for node in nodes:
                self._state.see_node(node)
            for pod in pods:
                self._state.see_pod(pod, watched=False)
            self._leader.begin()
        log.info("leading pods=%d nodes=%d", len(pods), len(nodes))

    def _end(self) -> None:
        if self._leader.term:
            with self._state.lock:
                self._leader.end()
                self._state.drop_reservations()
            log.info("no longer leading: %s", self._leader.why_not())
