"""Groups: pods of one namespace with the same `vgpu.io/group` label. A group is a gang if labels give its size.

Only the labels of its pods define a group; there is no Kubernetes object for it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.core.contract import annotations
from device_plugin.core.gang import EquivalenceClass, GangPod, GangState, GangView
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement.policies import APART
from device_plugin.core.pods import Pod
from device_plugin.core.requests import MAX_GANG
from device_plugin.core.roles import ALONE, Held, Rank, Ranking, order_of, rank_of, subtract

GroupName = tuple[str, str]
"""Namespace and label."""
# Most existing pods of one group or gang: each decision about a pod reads all pods of its group.
MOST = 2 * MAX_GANG


@dataclass(slots=True)
class Group:
    """The existing pods of one group by UID, ended pods included, with the counts that decisions read."""

    name: GroupName
    members: dict[str, Pod] = field(default_factory=dict)
    # The number of live members that give each order of roles, as text.
    orders: Counter[str] = field(default_factory=Counter)
    # The members with a policy that places apart.
    ranking: Ranking = field(default_factory=Ranking)
    # The members that count in the gang; and the number of unbound ones by class, because it takes time to compute.
    gang: dict[str, GangPod] = field(default_factory=dict)
    classes: Counter[EquivalenceClass] = field(default_factory=Counter)
    state: GangState = field(default_factory=GangState)

    def put(self, pod: Pod, gang_pod: GangPod | None) -> None:
        """Record the present state of a pod of the group; `gang_pod` is None if the pod does not count in a gang."""
        self.remove(pod.uid)
        self.members[pod.uid] = pod
        if not pod.ended:
            self.orders[_order(pod)] += 1
        if pod.annotation(annotations.POLICY) in APART:
            self.ranking.see(pod)
        if gang_pod is not None:
            self.gang[pod.uid] = gang_pod
            if gang_pod.unbound:
                self.classes[gang_pod.equivalence] += 1

    def remove(self, uid: str) -> None:
        """Remove a pod that is gone, or no longer in the group."""
        pod, gang_pod = self.members.pop(uid, None), self.gang.pop(uid, None)
        if pod is not None and not pod.ended:
            subtract(self.orders, _order(pod))
        self.ranking.forget_pod(uid)
        if gang_pod is not None and gang_pod.unbound:
            subtract(self.classes, gang_pod.equivalence)

    def crowded(self) -> str:
        """An error text if the group has too many pods, ended pods included; empty if not."""
        if len(self.members) <= MOST:
            return ""
        return (
            f"group {self.name[1]} has more than {MOST} pods, ended ones included: delete ended pods, or use another"
            f" {annotations.GROUP}"
        )

    def problem(self) -> str:
        """The problem that keeps all pods of the group from being placed, as text; empty if there is none."""
        if len(self.orders) > 1:
            discord = (
                f"the pods of group {self.name[1]} have different annotations {annotations.ROLE_ORDER}: write one order"
                " on all of them"
            )
            return self.crowded() or discord
        return self.crowded()


class Groups:
    """All groups, as their pods were last seen. Callers hold the cluster view's lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._groups: dict[GroupName, Group] = {}
        self._of: dict[str, GroupName] = {}
        self.news = 0
        """A number that grows when refused pods of a group may fit: its gang has changed, or its problem has ended."""

    def see(self, pod: Pod, gang_pod: GangPod | None = None) -> None:
        """Record the present state of a pod in the group that its label names.

        A pod whose label has changed leaves its old group.
        """
        label = pod.label(annotations.GROUP)
        name = (pod.namespace, label) if label else None
        if self._of.get(pod.uid) != name:
            self.forget_pod(pod.uid)
        if name is not None:
            self._of[pod.uid] = name
            group = self._groups.setdefault(name, self.group(name))
            wrong = group.problem()
            self.news += gang_pod is not None or pod.uid in group.gang
            group.put(pod, gang_pod)
            self._note(group, wrong)

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is gone, or no longer in a group."""
        name = self._of.pop(uid, None)
        if name is not None:
            group = self._groups[name]
            wrong = group.problem()
            self.news += uid in group.gang
            group.remove(uid)
            if not group.members:
                del self._groups[name]
            self._note(group, wrong)

    def group(self, name: GroupName) -> Group:
        """The group of this name; an empty one if it has no pods."""
        return self._groups.get(name) or Group(name)

    def problem(self, name: GroupName) -> str:
        """The problem that keeps all pods of a group from being placed, as text; empty if there is none."""
        group = self._groups.get(name)
        return group.problem() if group is not None else ""

    def gangs(self) -> Sequence[GroupName]:
        """The names of all gangs, in order."""
        return sorted(name for name, group in self._groups.items() if group.gang)

    def gang_pod(self, uid: str) -> GangPod | None:
        """The pod with this UID as a pod of its gang; None if it is in no gang."""
        name = self._of.get(uid)
        return self._groups[name].gang.get(uid) if name is not None else None

    def gang_view(self, name: GroupName) -> GangView:
        """The present pods of a gang and their reservations."""
        group = self.group(name)
        live = [member for member in group.gang.values() if member.live]
        owners = {_owner(member.pod) for member in live}
        finished = [
            member
            for member in group.gang.values()
            if member.pod.phase == "Succeeded" and _owner(member.pod) in owners
        ]
        unbound = [member for member in live if member.unbound]
        reserved = {member.pod.uid: self._ledger.reservation(member.pod.uid) for member in unbound}
        waiting = [member for member in unbound if reserved[member.pod.uid] is None]
        return GangView(
            name[1],
            tuple(member.pod.name for member in (*live, *finished)),
            tuple(sorted(waiting, key=lambda member: (member.pod.created, member.pod.name))),
            tuple(reservation for reservation in reserved.values() if reservation is not None),
            bound=len(live) - len(unbound),
            finished=len(finished),
            sizes=frozenset({member.gang.size for member in (*live, *finished)}),
            classes=len(group.classes),
        )

    def rank(self, pod: Pod) -> Rank:
        """The rank of an unbound pod: its number in its group, and the nodes that it must avoid or leave to others.

        An empty rank if the pod is in no group.
        """
        return self.ranks((pod,))[pod.uid] if pod.label(annotations.GROUP) else ALONE

    def ranks(self, pods: Sequence[Pod]) -> Mapping[str, Rank]:
        """The ranks (numbers in their group), by UID, of several unbound pods of one group that are placed together."""
        group = self.group((pods[0].namespace, pods[0].label(annotations.GROUP)))
        # Only the group's unbound pods, of which there are few, are looked up among all holdings.
        held = group.ranking.unbound & self._ledger.holdings().keys()
        return group.ranking.ranks(pods, {uid: self._held(group.members[uid]) for uid in held})

    def _held(self, pod: Pod) -> Held:
        """The node and the rank of an unbound pod that holds slices.

        If a transaction gave the pod a grant without a reservation, the rank is read from the pod's label.
        """
        reservation = self._ledger.reservation(pod.uid)
        rank = reservation.request.rank.number if reservation is not None else rank_of(pod)
        return Held(self._ledger.holdings()[pod.uid].node, rank)

    def _note(self, group: Group, wrong: str) -> None:
        """Add 1 to the counter `news` if the group's problem has ended; drop its gang state if it is no gang any more.

        `wrong` is the problem before the change, as text; empty if there was none.
        """
        self.news += bool(wrong) and not group.problem()
        if not group.gang:
            group.state = GangState()


def _owner(pod: Pod) -> str:
    """The pod's workload, which may have several Jobs; if the pod has none, the UID of its owner."""
    return pod.workload or pod.owner_uid


def _order(pod: Pod) -> str:
    return ",".join(order_of(pod))
