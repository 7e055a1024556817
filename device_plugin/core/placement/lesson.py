"""A lesson: what policies make of one set of tables, and what they know of every node by it.

To look at all nodes takes longer than a decision may. So they are looked at a few at a time, before anything is decided
by the lesson.
"""

from collections.abc import Mapping

from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fragments import Fgd
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.policy import Policy
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.waste import Waste


class Lesson:
    """Policies by name: those that learn from the tables, and the others as they are."""

    def __init__(self, tables: Tables, index: Index, others: Mapping[str, Policy]) -> None:
        self.tables = tables
        self.waste = Waste(index, tables.plain)
        self._index = index
        self._fill = ExpectedFill(tables.fill, index)
        self.policies: Mapping[str, Policy] = {
            **others, "fgd": Fgd(tables.fragments), "fragmentation": self._fill,
        }  # fmt: skip

    @property
    def fits(self) -> bool:
        """True if there was something to learn, and it is about the cards that there are."""
        return bool(self.tables.asks) and self.tables.kinds == tuple(self._index.kinds)

    def prepare(self, most: int) -> bool:
        """Look at no more than `most` nodes that changed since; true once none is left. Only where it `fits`."""
        return self._fill.rough.renew(most) and self.waste.refresh(most)
