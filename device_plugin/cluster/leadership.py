"""The terms of leadership: each begins with a list of all pods and nodes, and its end releases all reservations.

A Lease may be lost before it expires: kube-scheduler gives it up on SIGTERM, and our process may be killed and start
again. In both cases a Binding of the earlier term may still be under way. So a new term begins only when the last such
Binding must have ended.

A list of tens of thousands of pods takes seconds, and a Lease that is not read for seconds counts as lost. So one
thread lists the pods while another reads the Lease.
"""

import logging
from functools import partial

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.bind import BIND_SECONDS
from device_plugin.cluster.leader import Leader
from device_plugin.kube.api import NODES, PODS, Api, Ref
from device_plugin.kube.errors import ApiError, GoneError
from device_plugin.kube.leases import LEASES, Lease
from device_plugin.state.news import take

log = logging.getLogger(__name__)

# A replica learns within 2 s that it lost the Lease, and a Binding that it sent until then ends within BIND_SECONDS.
SETTLE_SECONDS = 2.0 + BIND_SECONDS
LONG_AGO = float("-inf")


class Leadership(Service):
    """Starts and ends this replica's terms of leadership.

    `step` is called about once a second, `begin` in another thread. Nothing is written to the API server.
    """

    def __init__(self, shared: Shared, leader: Leader, api: Api, lease: Ref) -> None:
        super().__init__(shared)
        self._leader = leader
        self._api = api
        self._lease = lease
        self._holds_since: float | None = None
        self._lease_existed = False
        # Grows, with the view's lock held, whenever another replica may have had the Lease since the last step.
        self._breaks = 0

    def step(self) -> None:
        """Read the Lease, and end the term if the Lease is no longer ours or was not renewed in time."""
        started = self._clock()
        try:
            lease = self._read()
        except ApiError as error:
            self._leader.missed(str(error))
        else:
            if not self._leader.fenced():
                # This read may show the Lease as ours, but another replica may have led since the fence.
                self._end()
            self._leader.observe(lease, started)
            self._note(there_is_one=lease is not None)
        if not self._leader.fenced():
            self._end()

    def begin(self) -> None:
        """List all nodes and pods, and begin a term.

        Does nothing during a term, while the Lease is not ours, and while a Binding of an earlier term may be under
        way. If the Lease was lost during the list, no term begins.
        """
        breaks = self._breaks
        if self._leader.term or not self._leader.fenced() or not self._settled():
            return
        try:
            nodes, pods = self._api.list(NODES).items, self._api.list(PODS).items
        except ApiError as error:
            log.warning("leading, but the cluster cannot be listed: %s", error)
            return
        take(self._view.lock, nodes, self._view.node_news.see)
        take(self._view.lock, pods, partial(self._view.pod_news.see, watched=False))
        with self._view.lock:
            # Writing thousands of nodes into the table takes most of a second, and no pod waits for it yet.
            self._allocator.placer.table.refresh()
        with self._view.lock:
            if self._breaks != breaks or not self._leader.fenced():
                return
            self._allocator.gangs.complete(self._view.promises.opened_for)
            self._leader.begin()
        log.info("leading pods=%d nodes=%d", len(pods), len(nodes))

    def _read(self) -> Lease | None:
        try:
            return self._api.get(LEASES, self._lease)
        except GoneError:
            return None  # no replica has created it yet

    def _note(self, *, there_is_one: bool) -> None:
        if self._leader.holds:
            if self._holds_since is None:
                self._holds_since = self._clock()
        else:
            # Without an earlier leader no Binding can be under way.
            self._holds_since = None if there_is_one or self._lease_existed else LONG_AGO
        self._lease_existed |= there_is_one

    def _settled(self) -> bool:
        since = self._holds_since
        return since is not None and self._clock() - since >= SETTLE_SECONDS

    def _end(self) -> None:
        with self._view.lock:
            self._breaks += 1
            if not self._leader.term:
                return
            self._leader.end()
            self._allocator.drop()
        self._holds_since = None
        log.info("no longer leading: %s", self._leader.why_not())
