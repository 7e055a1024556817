"""The scores of asks that were lately decided, by policy.

When a policy learns something new, all of its scores are void at once, and making them anew takes longer than a
decision may. So the old ones stay in use, each with the tables it was made by, until new ones stand ready beside them.
"""

from collections import OrderedDict
from collections.abc import Mapping

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.scores import Scores

# Asks whose scores are kept: so many, and no more than so many bytes for all of their nodes.
MOST, MOST_BYTES, NODE_BYTES = 256, 24 * 2**20, 20
Key = tuple[str, Ask]


class Kept:
    """Scores by the name of a policy and the ask."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._scores: OrderedDict[Key, Scores] = OrderedDict()
        self._coming: dict[Key, Scores] = {}
        self.left_out = 0
        """Scores that were forgotten because there were too many."""

    def __len__(self) -> int:
        """How many asks' scores are kept."""
        return len(self._scores)

    @property
    def most(self) -> int:
        """How many may be kept."""
        return max(1, min(MOST, MOST_BYTES // (NODE_BYTES * max(1, len(self._index.nodes)))))

    def knows(self, name: str, ask: Ask) -> bool:
        """True if the scores of this ask are kept."""
        return (name, ask) in self._scores

    def of(self, name: str, policy: Policy, ask: Ask) -> Scores:
        """What `policy`, or the one that had its name before, thinks now."""
        scores = self._scores.pop((name, ask), None)
        if scores is None:
            scores = Scores(self._index, ask, policy)
        if policy.lasting:
            while len(self._scores) >= self.most:
                self.left_out += 1
                self._coming.pop(self._scores.popitem(last=False)[0], None)
            self._scores[name, ask] = scores
        scores.refresh()
        return scores

    def renew(self, policies: Mapping[str, Policy], most: int) -> bool:
        """Score at most `most` nodes towards `policies`; true once all scores are theirs."""
        for (name, ask), scores in self._scores.items():
            policy = policies[name]
            if scores.policy is policy:
                continue
            coming = self._coming.get((name, ask))
            if coming is None or coming.policy is not policy:
                coming = self._coming[name, ask] = Scores(self._index, ask, policy)
            if coming.refresh(most):
                self._scores[name, ask] = self._coming.pop((name, ask))
            return False
        return True

    def forget(self) -> None:
        """Make all scores anew when they are asked for."""
        self._scores.clear()
        self._coming.clear()
