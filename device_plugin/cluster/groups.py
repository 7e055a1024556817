"""Groups: pods with one `vgpu.io/group` label, in one namespace."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from device_plugin.cluster.reservations import Reservations
from device_plugin.core import annotations
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Pod
from device_plugin.core.requests import MAX_GANG
from device_plugin.core.roles import ALONE, Mate, Standing, order_of, rank_of, standings

Key = tuple[str, str]
"""Namespace and label."""
# Pods of one group that exist, of which as many may be a gang: each decision for one of them looks at all of them.
MOST = 2 * MAX_GANG


class Groups:
    """The members of every group, as they were last seen. Callers hold the lock of the state."""

    def __init__(self, ledger: Ledger, reservations: Reservations) -> None:
        self._ledger = ledger
        self._reservations = reservations
        self._members: dict[Key, dict[str, Pod]] = defaultdict(dict)
        self._of: dict[str, Key] = {}
        # How many members that have not ended give each order of roles, as text.
        self._orders: dict[Key, Counter[str]] = defaultdict(Counter)

    def see(self, pod: Pod) -> None:
        """There is news of a pod; its label may be another than before."""
        name = pod.label(annotations.GROUP)
        key = (pod.namespace, name) if name else None
        if self._of.get(pod.uid) != key:
            self.forget(pod.uid)
        if key is not None:
            self._of[pod.uid] = key
            self._count(key, self._members[key].get(pod.uid), pod)
            self._members[key][pod.uid] = pod

    def forget(self, uid: str) -> None:
        """The pod is gone, or in no group any more."""
        key = self._of.pop(uid, None)
        if key is not None:
            self._count(key, self._members[key].pop(uid), None)
            if not self._members[key]:
                del self._members[key], self._orders[key]

    def members(self, key: Key) -> Iterator[Pod]:
        """All members of a group; ended ones too, while they exist."""
        return iter(self._members.get(key, {}).values())

    def problem(self, key: Key) -> str:
        """Why nobody of a group can be placed, in words; empty if nothing is wrong with it."""
        return self.crowded(key) or self._discord(key)

    def crowded(self, key: Key) -> str:
        """In words if a group has too many members, else empty."""
        count = len(self._members.get(key, ()))
        if count <= MOST:
            return ""
        return f"group {key[1]} has {count} pods, ended ones included: at most {MOST} can be in one group"

    def _discord(self, key: Key) -> str:
        """What to say if members give different role orders; empty if they agree."""
        if len(self._orders.get(key, ())) <= 1:
            return ""
        return f"the pods of group {key[1]} differ in {annotations.ROLE_ORDER}: write the same on all of them"

    def standing(self, pod: Pod) -> Standing:
        """Where the pod stands among the others that ask for the same policy; ALONE without a group."""
        return self.standings((pod,))[pod.uid] if pod.label(annotations.GROUP) else ALONE

    def standings(self, pods: Sequence[Pod]) -> Mapping[str, Standing]:
        """The same for several pods of one group, by uid, which get their places together."""
        first, placing = pods[0], {pod.uid for pod in pods}
        policy = first.annotation(annotations.POLICY)
        others = (
            mate
            for mate in self.members((first.namespace, first.label(annotations.GROUP)))
            if mate.uid not in placing and mate.annotation(annotations.POLICY) == policy
        )
        return standings(pods, [found for mate in others if (found := self._mate(mate)) is not None])

    def _count(self, key: Key, before: Pod | None, now: Pod | None) -> None:
        """Keep the orders of roles up to date: a member that has ended needs none."""
        orders = self._orders[key]
        for pod, more in ((before, -1), (now, 1)):
            if pod is None or pod.ended:
                continue
            order = ",".join(order_of(pod))
            orders[order] += more
            if not orders[order]:
                del orders[order]

    def _mate(self, pod: Pod) -> Mate | None:
        """The pod as its mates look at it; None once it needs no node."""
        grant, reservation = self._ledger.grant(pod.uid), self._reservations.get(pod.uid)
        node = pod.node or (grant.node if grant is not None else "")
        if pod.ended or (pod.deleting and not node):
            return None
        if not node:
            return Mate(pod)
        return Mate(pod, node, reservation.request.standing.rank if reservation is not None else rank_of(pod))
