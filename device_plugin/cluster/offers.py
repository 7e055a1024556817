"""Nodes that are offered for pods: thousands of names, mostly the same ones again, in ever other orders."""

from collections import OrderedDict
from collections.abc import Sequence

# Different lists of nodes that are recognised when they come again.
MOST = 16


class Offers:
    """Whoever remembers what was offered for a pod takes it from here: equal sets of nodes are one list.

    Else ten thousand names would be remembered for each of a thousand pods. Callers hold the state's lock.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._lists: OrderedDict[frozenset[str], tuple[str, ...]] = OrderedDict()

    def shared(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The list of these nodes, in the order in which they were offered first."""
        key = frozenset(nodes)
        known = self._lists.get(key)
        if known is None:
            known = tuple(self._names.setdefault(name, name) for name in nodes)
            self._lists[frozenset(known)] = known
            if len(self._lists) > MOST:
                self._lists.popitem(last=False)
                if len(self._names) > 2 * sum(map(len, self._lists.values())):
                    self._names = {name: name for names in self._lists.values() for name in names}
        else:
            self._lists.move_to_end(key)
        return known
