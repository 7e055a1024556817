"""Holds pods until their ResourceClaims exist, as the plugin DynamicResources does before a pod enters the queue.

Model: k8s.io/kubernetes 1.36 pkg/scheduler/framework/plugins/dynamicresources (PreEnqueue). A pod that is held has no
condition and no event.
"""

from collections.abc import Callable, Sequence
from typing import Any

from device_plugin.kube.api import Change
from hack.embedded.claims.uses import owner, used
from hack.embedded.pod_spec import Json, deleting, uid

Key = tuple[str, str]


class ClaimGate:
    """Holds pods until `release` is called with them. One thread calls `sync` and `see`, any thread the rest."""

    def __init__(self, release: Callable[[Json], None]) -> None:
        self._release = release
        # By namespace and name.
        self._claims: dict[Key, Json] = {}
        self._held: dict[str, Json] = {}

    def holds(self, pod: Json) -> bool:
        """True if the pod must wait for its ResourceClaims; `release` is called when it need not wait any more."""
        # The pod is held first, because another thread may see the last claim meanwhile.
        self._held[uid(pod)] = pod
        if self._ready(pod):
            self._held.pop(uid(pod), None)
            return False
        return True

    def forget(self, pod: str) -> None:
        """Hold the pod of this UID no more; it has been bound or is gone."""
        self._held.pop(pod, None)

    def sync(self, claims: Sequence[Any]) -> None:
        """Take over the list of all ResourceClaims."""
        self._claims = {_key(claim): claim for claim in claims}
        self._look()

    def see(self, change: Change, claim: Any) -> None:
        """Take over a change of a ResourceClaim."""
        if change is Change.DELETED:
            self._claims.pop(_key(claim), None)
        else:
            self._claims[_key(claim)] = claim
            self._look()

    def _look(self) -> None:
        for key, pod in self._held.copy().items():
            if self._ready(pod) and self._held.pop(key, None) is not None:
                self._release(pod)

    def _ready(self, pod: Json) -> bool:
        return all(self._is_there(pod, name) for name in used(pod).values())

    def _is_there(self, pod: Json, name: str) -> bool:
        """True if the pod's ResourceClaim exists, is not being deleted, and belongs to no other pod."""
        claim = self._claims.get((pod["metadata"]["namespace"], name))
        if claim is None or deleting(claim):
            return False
        return owner(claim).get("uid") in (None, uid(pod))


def _key(claim: Json) -> Key:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]
