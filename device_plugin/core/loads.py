"""Loads: what is really in use of the cards, as measured on their nodes, against what the ledger has granted of them.

Of a measurement the difference to the ledger is kept: what is granted later counts at once, in full, and what is
released is free again, until the next measurement tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.core.changes import Followed
from device_plugin.core.ledger import CardState, NodeState


@dataclass(frozen=True, slots=True)
class Load:
    """What is in use of a card, in shares of 0 to 1: of its memory, and of its time (None: its driver does not say)."""

    memory: float
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """What of a card is granted and not in use, in percent of the card; negative where more is in use than granted."""

    memory: int
    cores: int


class Loads(Followed):
    """The cards of nodes that were measured lately. Callers hold the ledger's lock around it."""

    def __init__(self) -> None:
        super().__init__()
        self._unused: dict[str, Mapping[str, Unused]] = {}

    def unused(self, node: str) -> Mapping[str, Unused]:
        """By card uuid; empty for a node that was not measured."""
        return self._unused.get(node, {})

    def put(self, node: NodeState, loads: Mapping[str, Load]) -> None:
        """The node as the ledger has it was measured now; cards that it does not have are passed over."""
        unused = {
            state.card.uuid: _unused(state, loads[state.card.uuid])
            for state in node.cards
            if state.card.uuid in loads
        }
        if self._unused.get(node.name) != unused:
            self._unused[node.name] = unused
            self._changes.touch(node.name)

    def drop(self, node: str) -> None:
        """From now on the ledger alone tells what is in use."""
        if self._unused.pop(node, None) is not None:
            self._changes.touch(node)


def _unused(state: CardState, load: Load) -> Unused:
    # In whole percents, so that noise is no change.
    memory = 100 - round(100 * state.free_mib / state.card.mem_mib)
    cores = 100 - round(100 * state.free_cores.bit_count() / state.card.core_groups)
    return Unused(
        memory - round(100 * load.memory), 0 if load.busy is None else cores - round(100 * load.busy)
    )
