"""Clears allocations of ResourceClaims that belong to no bound pod: a crash left them between the writes of /bind.

Such a claim harms nobody, because the grant on a pod decides. But people read it, and it would keep the card's name
until its pod is placed again. Claims of pods that have ended are freed by Kubernetes' claim controller, not here.
"""

import logging

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.claim_writes import ClaimError, ClaimWrites
from device_plugin.core.contract.claims import DOMAIN, Claim, device_name
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Snapshot

log = logging.getLogger(__name__)

# Seconds between two looks at all claims; a claim that is stale in two of them is cleared.
LOOK_SECONDS = 3.0
# Seconds until a claim is tried again that could not be cleared, such as one whose bound pod has no grant.
AGAIN_SECONDS = 60.0
# Most claims that are cleared after one look.
MOST = 16


class StaleClaims(Service):
    """Clears the claims that hold a card of ours without a bound pod; `sweep` is called about once a second."""

    def __init__(self, shared: Shared, writes: ClaimWrites) -> None:
        super().__init__(shared)
        self._writes = writes
        self._next = 0.0
        # By UID of each claim that was stale in the latest look: the time from which it may be cleared.
        self._stale: dict[str, float] = {}

    def sweep(self) -> None:
        """Look at all claims, and clear those that were stale in the look before too, if this replica leads."""
        now = self._clock()
        if self._why_not_leading():
            self._stale.clear()
            return
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        allocated = self._view.claims.allocated()
        snapshot = self._view.snapshot()
        stale = [claim for claim in allocated if self._is_stale(claim, snapshot)]
        due = [claim for claim in stale if self._stale.get(claim.uid, now + LOOK_SECONDS) <= now][:MOST]
        self._stale = {claim.uid: self._stale.get(claim.uid, now) for claim in stale}
        for claim in due:
            try:
                self._writes.clear(claim)
            except ClaimError as error:
                log.info("claim %s/%s stays as it is: %s", claim.namespace, claim.name, error)
                self._stale[claim.uid] = now + AGAIN_SECONDS

    def _is_stale(self, claim: Claim, snapshot: Snapshot) -> bool:
        """True if no pod that names the claim holds its devices, and no Binding of such a pod is under way."""
        if not any(device.driver.endswith(DOMAIN) for device in claim.devices):
            return False
        for uid in self._view.pods.naming(claim.namespace, claim.name):
            grant, reservation = snapshot.grant(uid), snapshot.reservation(uid)
            if grant is None or claim.uid not in grant.claims.values():
                continue
            if reservation is not None:
                return not reservation.under_way
            return not _has(grant, claim, snapshot)
        return True


def _has(grant: Grant, claim: Claim, snapshot: Snapshot) -> bool:
    """True if the grant has the claim's devices, or its node does not show its cards now."""
    node = snapshot.node(grant.node)
    wanted = {
        each.card for container, uid in grant.claims.items() if uid == claim.uid
        for each in grant.containers[container]
    }  # fmt: skip
    shown = [state.card for state in node.cards if state.card.uuid in wanted] if node is not None else []
    given = {(grant.node, device_name(card)) for card in shown}
    return len(shown) < len(wanted) or given == {(device.pool, device.device) for device in claim.devices}
