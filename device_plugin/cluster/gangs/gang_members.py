"""Which pods of each gang there are. A gang is what the labels of its namespace's pods say it is."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from device_plugin.cluster.gangs.groups import Groups
from device_plugin.core.gang_state import GangPod, GangView, Shape
from device_plugin.core.ledger import Ledger
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

Name = tuple[str, str]
"""Namespace and group."""


class GangMembers:
    """The pods of all gangs. Callers hold the view's lock."""

    def __init__(self, groups: Groups, ledger: Ledger) -> None:
        self._groups = groups
        self._ledger = ledger
        self._pods: dict[str, GangPod] = {}
        # The number of pods of each gang that want a node, by shape: to compare what pods ask for takes time.
        self._shapes: dict[Name, Counter[Shape]] = defaultdict(Counter)

    def names(self) -> Sequence[Name]:
        """The names of all gangs, in order."""
        return sorted({member.name for member in self._pods.values()})

    def see(self, pod: Pod, request: PodRequest | None) -> GangPod | None:
        """Take news of a pod, which asks for `request`; None if it is in no gang."""
        self.forget(pod.uid)
        if request is None or request.gang is None:
            return None
        member = self._pods[pod.uid] = GangPod.of(pod, request, request.gang)
        if member.unbound:
            self._shapes[member.name][member.shape] += 1
        return member

    def forget(self, uid: str) -> GangPod | None:
        """The pod is gone; returns what it was."""
        member = self._pods.pop(uid, None)
        if member is not None and member.unbound:
            shapes = self._shapes[member.name]
            shapes[member.shape] -= 1
            if not shapes[member.shape]:
                del shapes[member.shape]
            if not shapes:
                del self._shapes[member.name]
        return member

    def shapes(self, name: Name) -> Collection[Shape]:
        """What the pods of a gang that want a node ask for."""
        return self._shapes.get(name, {}).keys()

    def get(self, uid: str) -> GangPod | None:
        """The pod of a gang with this uid."""
        return self._pods.get(uid)

    def exist(self, name: Name) -> bool:
        """True if there is a pod of the gang, whether it counts or not."""
        return any(pod.uid in self._pods for pod in self._groups.members(name))

    def view(self, name: Name) -> GangView:
        """The pods of a gang as they are now."""
        live, finished = [], []
        for pod in self._groups.members(name):
            member = self._pods.get(pod.uid)
            if member is None:
                continue
            if member.live:
                live.append(member)
            elif pod.phase == "Succeeded":
                finished.append(member)
        owners = {member.pod.owner_uid for member in live}
        counted = [member for member in finished if member.pod.owner_uid in owners]
        unbound = {member.pod.uid: member for member in live if not member.pod.node}
        reserved = {uid: found for uid in unbound if (found := self._ledger.reservation(uid)) is not None}
        waiting = [member for uid, member in unbound.items() if uid not in reserved]
        return GangView(
            name[1],
            tuple(member.pod.name for member in (*live, *counted)),
            tuple(sorted(waiting, key=lambda member: (member.pod.created, member.pod.name))),
            tuple(reserved.values()),
            bound=len(live) - len(unbound),
            finished=len(counted),
            sizes=frozenset(member.gang.size for member in (*live, *counted)),
            shapes=len(self.shapes(name)),
        )
