"""Groups: pods with one `vgpu.io/group` label, in one namespace."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from device_plugin.core import annotations
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Pod
from device_plugin.core.requests import MAX_GANG
from device_plugin.core.roles import ALONE, Held, Rank, Ranking, order_of, rank_of

Key = tuple[str, str]
"""Namespace and label."""
# Most existing pods of one group, and so of a gang: each decision for one of them reads all of them.
MOST = 2 * MAX_GANG


class Groups:
    """The members of every group, as they were last seen. Callers hold the view's lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._members: dict[Key, dict[str, Pod]] = defaultdict(dict)
        self._of: dict[str, Key] = {}
        # Rankings of the groups that have members with `node-score`.
        self._rankings: dict[Key, Ranking] = {}
        # By group: the number of live members that give each order of roles, as text.
        self._orders: dict[Key, Counter[str]] = defaultdict(Counter)
        self.news = 0
        """Grows whenever the pods of a group may be placed again, because its last problem is gone."""

    def see(self, pod: Pod) -> None:
        """Record the present state of a pod; its label may have changed."""
        name = pod.label(annotations.GROUP)
        key = (pod.namespace, name) if name else None
        if self._of.get(pod.uid) != key:
            self.forget(pod.uid)
        if key is not None:
            wrong = self.problem(key)
            self._of[pod.uid] = key
            self._count(key, self._members[key].get(pod.uid), pod)
            self._members[key][pod.uid] = pod
            self._see_rank(key, pod)
            self._note(key, wrong)

    def forget(self, uid: str) -> None:
        """Remove a pod that is gone, or no longer in a group."""
        key = self._of.pop(uid, None)
        if key is not None:
            wrong = self.problem(key)
            self._count(key, self._members[key].pop(uid), None)
            self._forget_rank(key, uid)
            if not self._members[key]:
                del self._members[key], self._orders[key]
            self._note(key, wrong)

    def members(self, key: Key) -> Iterator[Pod]:
        """All members of a group, ended ones included as long as they exist."""
        return iter(self._members.get(key, {}).values())

    def problem(self, key: Key) -> str:
        """The problem that keeps all pods of a group from being placed, as text; empty if there is none."""
        return self.crowded(key) or self._discord(key)

    def crowded(self, key: Key) -> str:
        """An error text if a group has too many members, else empty."""
        if len(self._members.get(key, ())) <= MOST:
            return ""
        return (
            f"group {key[1]} has more than {MOST} pods, ended ones included: delete ended pods, or use another"
            f" {annotations.GROUP}"
        )

    def _discord(self, key: Key) -> str:
        """An error text if members give different role orders; empty if they agree."""
        if len(self._orders.get(key, ())) <= 1:
            return ""
        return (
            f"the pods of group {key[1]} have different annotations {annotations.ROLE_ORDER}: write one order on all of"
            " them"
        )

    def rank(self, pod: Pod) -> Rank:
        """The rank of an unbound pod among the pods of its group with `node-score`; ALONE without a group."""
        return self.ranks((pod,))[pod.uid] if pod.label(annotations.GROUP) else ALONE

    def ranks(self, pods: Sequence[Pod]) -> Mapping[str, Rank]:
        """The ranks of several pods of one group, by uid, which get their nodes together."""
        key = (pods[0].namespace, pods[0].label(annotations.GROUP))
        ranking = self._rankings.get(key) or Ranking()
        # Only the group's unbound pods, of which there are few, are looked up among all holdings.
        held = self._ledger.holdings().keys() & ranking.unbound
        return ranking.ranks(pods, {uid: self._held(uid) for uid in held})

    def _held(self, uid: str) -> Held:
        """The node and the rank of an unbound pod's reservation. In a transaction it may have a grant without one."""
        pod, reservation = self._members[self._of[uid]][uid], self._ledger.reservation(uid)
        rank = reservation.request.rank.number if reservation is not None else rank_of(pod)
        return Held(self._ledger.holdings()[uid].node, rank)

    def _note(self, key: Key, wrong: str) -> None:
        """Count a change that ended the problem of a group."""
        if wrong and not self.problem(key):
            self.news += 1

    def _see_rank(self, key: Key, pod: Pod) -> None:
        if pod.annotation(annotations.POLICY) == NODE_SCORE:
            self._rankings.setdefault(key, Ranking()).see(pod)
        else:
            self._forget_rank(key, pod.uid)

    def _forget_rank(self, key: Key, uid: str) -> None:
        ranking = self._rankings.get(key)
        if ranking is not None:
            ranking.forget(uid)
            if not ranking:
                del self._rankings[key]

    def _count(self, key: Key, before: Pod | None, now: Pod | None) -> None:
        """Keep the counts of role orders up to date; members that have ended do not count."""
        orders = self._orders[key]
        for pod, more in ((before, -1), (now, 1)):
            if pod is None or pod.ended:
                continue
            order = ",".join(order_of(pod))
            orders[order] += more
            if not orders[order]:
                del orders[order]
