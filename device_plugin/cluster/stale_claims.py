"""Clears the allocation of each ResourceClaim without a bound pod, as a crash between the writes of /bind leaves it.

Such a claim harms nobody, because the grant on a pod decides. But people read it, and it would keep the card's name
until its pod is placed again. Claims of pods that have ended are freed by Kubernetes' claim controller, not here.
"""

import logging
from enum import Enum

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.claim_writes import ClaimError, ClaimWrites
from device_plugin.core.contract.claims import Claim, device_name, is_ours
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Snapshot

log = logging.getLogger(__name__)

# Seconds between two looks; a claim that is stale in two of them is cleared.
LOOK_SECONDS = 3.0
# Seconds until a claim is tried again that could not be cleared, such as one whose bound pod has no grant.
AGAIN_SECONDS = 60.0
# Most claims that are cleared after one look.
MOST = 16


class _State(Enum):
    """The relation of a ResourceClaim's devices to the grants of the pods that name the claim."""

    RIGHT = "right"
    """A bound pod holds the devices by its grant, or they are not ours."""
    OPEN = "open"
    """A Binding of such a pod is under way."""
    STALE = "stale"
    """No bound pod holds the devices."""


class StaleClaims(Service):
    """Clears ResourceClaims that have a card of ours but no bound pod; `sweep` is called about once a second."""

    def __init__(self, shared: Shared, writes: ClaimWrites) -> None:
        super().__init__(shared)
        self._writes = writes
        self._next = 0.0
        # By UID of each claim that was stale in the latest look: the time from which it may be cleared.
        self._stale: dict[str, float] = {}

    def sweep(self) -> None:
        """Compare changed ResourceClaims with grants; clear each that is stale now and was so LOOK_SECONDS before.

        A stale claim has a card, but no bound pod whose grant agrees with it. A claim that agrees with its pod's grant
        is compared again only after its next change. A replica that does not lead clears nothing.
        """
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        with self._view.lock:
            claims = self._view.claims.unsettled()
        snapshot = self._view.snapshot()
        states = [(claim, self._state(claim, snapshot)) for claim in claims]
        with self._view.lock:
            self._view.claims.settle(claim.key for claim, state in states if state is _State.RIGHT)
        if self._why_not_leading():
            self._stale.clear()
            return
        stale = [claim for claim, state in states if state is _State.STALE]
        due = [claim for claim in stale if self._stale.get(claim.uid, now + LOOK_SECONDS) <= now][:MOST]
        self._stale = {claim.uid: self._stale.get(claim.uid, now) for claim in stale}
        for claim in due:
            try:
                self._writes.clear(claim)
            except ClaimError as error:
                log.info("claim %s/%s stays as it is: %s", claim.namespace, claim.name, error)
                self._stale[claim.uid] = now + AGAIN_SECONDS

    def _state(self, claim: Claim, snapshot: Snapshot) -> _State:
        if not any(is_ours(device.driver) for device in claim.devices):
            return _State.RIGHT
        for uid in self._view.pods.naming(claim.namespace, claim.name):
            grant, reservation = snapshot.grant(uid), snapshot.reservation(uid)
            if grant is None or claim.uid not in grant.claims.values():
                continue
            if reservation is not None:
                return _State.OPEN if reservation.under_way else _State.STALE
            return _State.RIGHT if _has(grant, claim, snapshot) else _State.STALE
        return _State.STALE


def _has(grant: Grant, claim: Claim, snapshot: Snapshot) -> bool:
    """True if the grant has the ResourceClaim's devices, or if the node does not show all cards of the grant now."""
    node = snapshot.node(grant.node)
    wanted = {
        each.card for container, uid in grant.claims.items() if uid == claim.uid
        for each in grant.containers[container]
    }  # fmt: skip
    shown = [state.card for state in node.cards if state.card.uuid in wanted] if node is not None else []
    given = {(grant.node, device_name(card)) for card in shown}
    return len(shown) < len(wanted) or given == {(device.pool, device.device) for device in claim.devices}
