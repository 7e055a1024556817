"""A room of nodes with several cards each, on a real ledger, with the product's placement."""

from math import inf

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from hack.bench import hygon
from hack.bench.workload import FAMILY


def replicas_on(cards: int, per_node: int, of: int) -> int:
    """The number of replicas of `of` cards that fit on nodes of `per_node` cards; the last node may have fewer."""
    return cards // per_node * (per_node // of) + cards % per_node // of


def node_room(cards: int, per_node: int) -> LedgerRoom:
    """The room of nodes with `per_node` cards each; the last node may have fewer. Searches have no time limit."""
    ledger = node_ledger(cards, per_node)
    placer = Placer(ledger)
    return LedgerRoom(ledger, placer, {}, search=Search(ledger, placer, inf))


def node_ledger(cards: int, per_node: int) -> Ledger:
    """The ledger of empty nodes with `per_node` cards each; the last node may have fewer."""
    ledger = Ledger()
    for number, first in enumerate(range(0, cards, per_node)):
        name = f"node-{number:04}"
        count = min(per_node, cards - first)
        ledger.set_node(
            name, Inventory(tuple(hygon.card(f"{name}-{slot}", FAMILY, slot) for slot in range(count)))
        )
    return ledger
