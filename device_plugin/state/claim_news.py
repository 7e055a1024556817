"""News of ResourceClaims, from the watch and from lists."""

from collections.abc import Callable, Iterable

from device_plugin.core.contract.claims import Claim
from device_plugin.state.claims import ClaimName, KnownClaims
from device_plugin.state.news import Listed, Lock, take
from device_plugin.state.pods import KnownPods


class ClaimNews:
    """Brings news of ResourceClaims (new, changed, gone, listed) into the cluster's view.

    `again` is called with the UID of each known pod that names a changed claim, because the pod's request may have
    changed. Each public method takes the cluster view's lock.
    """

    def __init__(
        self, lock: Lock, claims: KnownClaims, pods: KnownPods, listed: Listed, again: Callable[[str], None]
    ) -> None:
        self._lock = lock
        self._claims = claims
        self._pods = pods
        self._listed = listed
        self._again = again

    def see(self, claim: Claim) -> None:
        """Record a ResourceClaim as it is now; `again` is called for the pods that name it if it asks otherwise.

        The same happens if the claim is new or has lost its devices.
        """
        with self._lock:
            # The text of the pod's own record takes no more memory.
            pod = self._pods.get(claim.pod) if claim.pod else None
            changed = self._claims.see(claim, pod.uid if pod is not None else "")
        if changed:
            self._tell(claim.key)

    def forget(self, claim: Claim) -> None:
        """Remove a ResourceClaim that the watch reports as deleted."""
        self._gone(claim.key)

    def sync(self, claims: Iterable[Claim]) -> None:
        """Take over a list of all ResourceClaims; known claims that are not listed are removed."""
        listed = {claim.key: claim for claim in claims if claim.ours}
        for claim in listed.values():
            self.see(claim)
        with self._lock:
            gone = self._claims.names() - listed.keys()
        for key in gone:
            self._gone(key)
        with self._lock:
            self._listed.add("claims")

    def _gone(self, key: ClaimName) -> None:
        with self._lock:
            known = self._claims.forget(*key)
        if known:
            self._tell(key)

    def _tell(self, key: ClaimName) -> None:
        with self._lock:
            uids = self._pods.naming(*key)
        take(self._lock, uids, self._again)
