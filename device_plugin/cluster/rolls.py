"""Rolls: which pods of each gang there are. A gang is what the labels of its namespace's pods say it is."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from device_plugin.cluster.groups import Groups
from device_plugin.core.ledger import Ledger, Reservation
from device_plugin.core.pods import Pod
from device_plugin.core.requests import Gang, PodRequest

Name = tuple[str, str]
"""Namespace and group."""
Shape = tuple[PodRequest, int]
"""Pods of one shape may go to the same nodes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod of a gang and what it asks for."""

    pod: Pod
    request: PodRequest
    gang: Gang
    shape: Shape

    @classmethod
    def of(cls, pod: Pod, request: PodRequest, gang: Gang) -> "Entry":
        """The entry of a pod."""
        return cls(pod, request, gang, (replace(request, pod=""), pod.constraints))

    @property
    def name(self) -> Name:
        """The name of its gang."""
        return self.pod.namespace, self.gang.group

    @property
    def live(self) -> bool:
        """True until it ends or is deleted."""
        return not self.pod.ended and not self.pod.deleting

    @property
    def bound(self) -> bool:
        """True while it is on a node and lives."""
        return bool(self.pod.node) and self.live

    @property
    def unbound(self) -> bool:
        """True as long as it wants a node."""
        return not self.pod.node and self.live


@dataclass(frozen=True, slots=True)
class Roll:
    """The `pods` of one gang: those that wait, the oldest first, those with a reservation, and how many are further.

    A pod that failed or is being deleted counts no more: another takes its place. One that ended well counts as long
    as its owner has others in the gang, so that a second run under the same name does not build on the first.
    """

    pods: tuple[str, ...]
    waiting: tuple[Entry, ...]
    reserved: tuple[Reservation, ...]
    bound: int
    finished: int
    sizes: frozenset[int]

    @property
    def exist(self) -> int:
        """How many count."""
        return len(self.pods)

    @property
    def placed(self) -> int:
        """How many have a place, or had one to their end."""
        return len(self.reserved) + self.bound + self.finished

    @property
    def under_way(self) -> bool:
        """True once a Binding of one of them was sent: then the gang is no longer all or nothing."""
        return self.bound > 0 or any(reservation.under_way for reservation in self.reserved)


class Rolls:
    """The rolls of all gangs. Callers hold the state's lock."""

    def __init__(self, groups: Groups, ledger: Ledger) -> None:
        self._groups = groups
        self._ledger = ledger
        self._entries: dict[str, Entry] = {}
        # How many pods of each gang want a node, by shape: to compare what pods ask for takes time.
        self._shapes: dict[Name, Counter[Shape]] = defaultdict(Counter)

    def names(self) -> Sequence[Name]:
        """The names of all gangs, in order."""
        return sorted({entry.name for entry in self._entries.values()})

    def see(self, pod: Pod, request: PodRequest | None) -> Entry | None:
        """Take news of a pod, which asks for `request`; None if it is in no gang."""
        self.forget(pod.uid)
        if request is None or request.gang is None:
            return None
        entry = self._entries[pod.uid] = Entry.of(pod, request, request.gang)
        if entry.unbound:
            self._shapes[entry.name][entry.shape] += 1
        return entry

    def forget(self, uid: str) -> Entry | None:
        """The pod is gone; returns its entry."""
        entry = self._entries.pop(uid, None)
        if entry is not None and entry.unbound:
            shapes = self._shapes[entry.name]
            shapes[entry.shape] -= 1
            if not shapes[entry.shape]:
                del shapes[entry.shape]
            if not shapes:
                del self._shapes[entry.name]
        return entry

    def shapes(self, name: Name) -> Collection[Shape]:
        """What the pods of a gang that want a node ask for."""
        return self._shapes.get(name, {}).keys()

    def entry(self, uid: str) -> Entry | None:
        """The pod of a gang with this uid."""
        return self._entries.get(uid)

    def roll(self, name: Name) -> Roll:
        """Who of a gang there is now."""
        live, finished = [], []
        for pod in self._groups.members(name):
            entry = self._entries.get(pod.uid)
            if entry is None:
                continue
            if entry.live:
                live.append(entry)
            elif pod.phase == "Succeeded":
                finished.append(entry)
        owners = {entry.pod.owner_uid for entry in live}
        counted = [entry for entry in finished if entry.pod.owner_uid in owners]
        unbound = {entry.pod.uid: entry for entry in live if not entry.pod.node}
        reserved = {uid: found for uid in unbound if (found := self._ledger.reservation(uid)) is not None}
        waiting = [entry for uid, entry in unbound.items() if uid not in reserved]
        return Roll(
            tuple(entry.pod.name for entry in (*live, *counted)),
            tuple(sorted(waiting, key=lambda entry: (entry.pod.created, entry.pod.name))),
            tuple(reserved.values()),
            bound=len(live) - len(unbound),
            finished=len(counted),
            sizes=frozenset(entry.gang.size for entry in (*live, *counted)),
        )
