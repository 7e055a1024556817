"""Loads: the use of each card by all processes, as the node's agent measured it.

Placement also counts the slices in the ledger, because no measurement includes a new grant yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.core.ledger import Followed, NodeState


@dataclass(frozen=True, slots=True)
class Load:
    """The used shares of a card's memory and time, 0 to 1; `busy` is None if the driver does not measure it."""

    memory: float
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """The used percent of a card's memory and time, rounded; `busy` is 0 if the driver does not measure it."""

    memory: int
    busy: int


class Loads(Followed):
    """The measured use of cards, by node; only nodes with a recent measurement. Callers hold the ledger's lock."""

    def __init__(self) -> None:
        super().__init__()
        self._used: dict[str, Mapping[str, Used]] = {}

    def used(self, node: str) -> Mapping[str, Used]:
        """The use of the node's cards by uuid; empty for a node without a recent measurement."""
        return self._used.get(node, {})

    def copy(self) -> dict[str, Mapping[str, Used]]:
        """A copy of the loads of all nodes; later measurements do not change it."""
        return dict(self._used)

    def restore(self, copied: Mapping[str, Mapping[str, Used]]) -> None:
        """Replace all loads by the loads in `copied`."""
        for node in [node for node in self._used if node not in copied]:
            self.drop(node)
        for node, used in copied.items():
            if self._used.get(node) is not used:
                self._used[node] = used
                self._touch(node)

    def put(self, node: NodeState, loads: Mapping[str, Load]) -> None:
        """Store the loads measured on `node`, in place of its earlier loads; only cards in the state `node` count."""
        known = (state.card.uuid for state in node.cards)
        used = {uuid: _percent(loads[uuid]) for uuid in known if uuid in loads}
        if self._used.get(node.name) != used:
            self._used[node.name] = used
            self._touch(node.name)

    def drop(self, node: str) -> None:
        """Remove the node's loads: from then on placement uses only the grants on it."""
        if self._used.pop(node, None) is not None:
            self._touch(node)


def _percent(load: Load) -> Used:
    # Rounded to whole percents, so that noise does not count as a change.
    return Used(round(100 * load.memory), 0 if load.busy is None else round(100 * load.busy))
