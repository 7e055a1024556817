"""The nodes that kube-scheduler offered for pods of gangs, kept because one decision places all pods of a gang."""

from collections import Counter
from collections.abc import Collection, Mapping

from device_plugin.allocator.gangs.groups import GroupName
from device_plugin.core.gang import EquivalenceClass, Nodes

# Most lists in total, and most of one namespace's gangs: each list takes 1 bit per node.
MOST, MOST_OF_NAMESPACE = 16_384, 4096


class OfferedNodes:
    """Holds lists of offered nodes: one list for each class of equal pods in each gang.

    Callers hold the cluster view's lock.

    If there are too many lists, a new list is left out. The pods of its class are then placed on the nodes offered for
    another pod of the gang. If kube-scheduler later offers other nodes for these pods, they are moved.
    """

    def __init__(self) -> None:
        self._by_gang: dict[GroupName, Mapping[EquivalenceClass, Nodes]] = {}
        # By namespace: the number of lists.
        self._counts: Counter[str] = Counter()
        self.left_out = 0
        """Number of lists that were left out because there were too many."""

    def __len__(self) -> int:
        """Number of lists of offered nodes."""
        return self._counts.total()

    def of(self, gang: GroupName) -> Mapping[EquivalenceClass, Nodes]:
        """The lists of offered nodes of a gang, by class of equal pods."""
        return self._by_gang.get(gang, {})

    def put(
        self, gang: GroupName, pods: EquivalenceClass, nodes: Nodes, wanted: Collection[EquivalenceClass]
    ) -> None:
        """Keep `nodes` as the list of the class `pods`; lists of classes that are not in `wanted` are dropped.

        If there are too many lists, the list of a new class is left out and nothing changes.
        """
        known = self.of(gang)
        if pods not in known and (self._counts[gang[0]] >= MOST_OF_NAMESPACE or len(self) >= MOST):
            self.left_out += 1
            return
        lists = {**known, pods: nodes}
        if len(lists) > len(wanted):
            lists = {pods: nodes for pods, nodes in lists.items() if pods in wanted}
        self.drop(gang)
        self._by_gang[gang] = lists
        self._counts[gang[0]] += len(lists)

    def drop(self, gang: GroupName) -> None:
        """Remove the lists of offered nodes of a gang."""
        self._counts[gang[0]] -= len(self._by_gang.pop(gang, ()))
        if not self._counts[gang[0]]:
            del self._counts[gang[0]]
