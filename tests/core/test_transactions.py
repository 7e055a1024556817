"""One store for all that is held: whatever happens, it equals a plain model, and a ledger that is rebuilt.

python -m tests.core.test_transactions EVENTS SEED...
"""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import (
    Holder,
    Holding,
    Ledger,
    PromiseHolder,
    Reservation,
    ReservationStage,
    Snapshot,
    Transaction,
)
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest
from tests.builders.cards import card
from tests.effort import TIMES

EVENTS = 10_000 * TIMES
GROUPS, MIB = 32, 1600
NODES = ("a", "b")
HOLDERS = tuple(f"pod-{i}" for i in range(5))
NAMED = "not a pod yet"
PROMISE = PromiseHolder("a", "job default/b")
Known = Mapping[str, tuple[Inventory, HostAmounts]]


@dataclass
class Model:
    """What should be held, and what nodes there should be."""

    holdings: dict[Holder, Holding] = field(default_factory=dict)
    nodes: dict[str, tuple[Inventory, HostAmounts]] = field(default_factory=dict)

    def copy(self) -> "Model":
        return Model(dict(self.holdings), dict(self.nodes))


def rebuilt(model: Model, *, nodes_first: bool = True) -> Ledger:
    """What a service that has just started makes of pods and inventories, in another order."""
    fresh = Ledger()
    for first in (True, False):
        if first is nodes_first:
            for name, (inventory, whole) in model.nodes.items():
                fresh.set_node(name, inventory, whole)
        else:
            for held in reversed(model.holdings.values()):
                fresh.put(held)
    return fresh


class Driver:
    """A ledger and its model, to which the same things happen."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger, self.model, self.now = Ledger(), Model(), 0.0
        self.open: list[tuple[Transaction, Model, tuple[int, int]]] = []
        self.follower, self.seen, self.copy = dict[str, object](), 0, Ledger()
        self.kept: tuple[Snapshot, Model] = self.ledger.snapshot(), Model()
        self.counts = dict.fromkeys(
            ("put", "release", "node", "begin", "commit", "rollback", "expire", "crash"), 0
        )

    def step(self) -> None:
        """One random event."""
        events = [
            self.put,
            self.release,
            self.node,
            self.begin,
            self.commit,
            self.rollback,
            self.expire,
            self.crash,
        ]
        event = self.rng.choices(events, (40, 20, 10, 10, 6, 6, 6, 2))[0]
        if event() is not False:
            self.counts[event.__name__] += 1

    def put(self) -> None:
        rng = self.rng
        holder, node, kind = self.holder(), rng.choice(NODES), rng.random()
        host = HostAmounts(rng.choice((0, 500)), rng.choice((0, 64)), 0)
        grant = self.grant(holder, node)
        made = Holding(holder=holder, node=node, grant=grant, host=host)
        if holder == NAMED:
            made = Holding(
                holder=holder, node=node, grant=grant, host=host, expires=self.now + rng.randint(1, 20)
            )
        elif isinstance(holder, PromiseHolder):
            made = Holding(holder=holder, node=node, grant=grant)
        elif kind < 0.2:
            made = Holding(holder=holder, node=node, host=host)
        elif kind < 0.6:
            pod, request = Pod("default", holder, holder), PodRequest(holder, (), host=host)
            expires = rng.choice((inf, self.now + rng.randint(1, 20)))
            made = Reservation.for_pod(pod, request, grant, expires, rng.choice(list(ReservationStage)))
        conflicts = self.ledger.put(made)
        self.model.holdings[holder] = made
        assert {conflict.other for conflict in conflicts} <= self.model.holdings.keys() - {holder}

    def holder(self) -> str | PromiseHolder:
        every: tuple[str | PromiseHolder, ...] = (*HOLDERS, NAMED, PROMISE)
        return self.rng.choice(every)

    def grant(self, holder: Holder, node: str) -> Grant:
        """One slice or two, of cards that the node may not have, and that others may hold."""
        uuids = self.rng.sample([f"{node}0", f"{node}1"], self.rng.randint(1, 2))
        first = self.rng.randrange(GROUPS)
        slices = tuple(Slice(uuid, self.rng.choice((100, 100, 800)), (first,)) for uuid in uuids)
        return Grant(str(holder), node, {"main": slices}, cards={uuid: CardSize(MIB, 4) for uuid in uuids})

    def release(self) -> bool:
        holder = self.holder()
        known = self.model.holdings.pop(holder, None)
        assert self.ledger.release(holder) == known
        return known is not None

    def node(self) -> None:
        name = self.rng.choice(NODES)
        if self.rng.random() < 0.3:
            self.ledger.drop_node(name)
            self.model.nodes.pop(name, None)
            return
        cards = [
            card(f"{name}{i}", groups=self.rng.choice((GROUPS, 24)), mem_mib=self.rng.choice((MIB, 800)))
            for i in range(self.rng.randint(0, 2))
        ]
        known = (
            Inventory(tuple(cards), serving=self.rng.random() < 0.9),
            HostAmounts(self.rng.choice((0, 8000))),
        )
        self.ledger.set_node(name, *known)
        self.model.nodes[name] = known

    def begin(self) -> bool:
        if len(self.open) == 3:
            return False
        counts = self.ledger.gained, self.ledger.freed
        self.open.append((self.ledger.transaction().__enter__(), self.model.copy(), counts))
        return True

    def commit(self) -> bool:
        if not self.open:
            return False
        transaction, _, _ = self.open.pop()
        transaction.commit()
        transaction.__exit__(None, None, None)
        return True

    def rollback(self) -> bool:
        """Take a transaction back: it was not committed, or something failed after that."""
        if not self.open:
            return False
        transaction, self.model, before = self.open.pop()
        if self.rng.random() < 0.5:
            transaction.commit()
            transaction.__exit__(ValueError, ValueError(), None)
        else:
            transaction.__exit__(None, None, None)
        assert (self.ledger.gained, self.ledger.freed) == before
        return True

    def expire(self) -> bool:
        self.now += self.rng.randint(1, 5)
        due = {holder for holder, held in self.model.holdings.items() if held.expires <= self.now}
        assert set(self.ledger.expired(self.now)) == due
        for holder in due:
            self.ledger.release(holder)
            del self.model.holdings[holder]
        return bool(due)

    def crash(self) -> None:
        """Allocator, promises and what was not committed are lost; pods still have their grants."""
        if self.open:
            self.model = self.open[0][1]
            self.open.clear()
        self.model.holdings = {
            holder: held for holder, held in self.model.holdings.items()
            if not isinstance(held, Reservation) and holder not in (NAMED, PROMISE)
        }  # fmt: skip
        self.ledger = rebuilt(self.model)
        self.follower, self.seen = {}, 0

    def check(self, number: int) -> None:
        """The ledger is what the model says, in every way in which it is read."""
        ledger, model = self.ledger, self.model
        assert ledger.holdings() == model.holdings
        assert ledger == rebuilt(model, nodes_first=number % 10 > 0)
        for name in NODES:
            self.check_node(name)
        for name in ledger.changed_since(self.seen):
            self.follower[name] = self.remains(name)
        self.seen = ledger.version
        assert all(self.follower.get(name) == self.remains(name) for name in NODES)
        if number % 10 == 0:
            snapshot, then = self.kept
            assert dict(snapshot.holdings()) == then.holdings, "a snapshot changed"
            self.kept = ledger.snapshot(), model.copy()
            self.copy.restore(ledger.snapshot())
            assert self.copy == ledger
            assert {r.holder for r in self.copy.reservations()} == {r.holder for r in ledger.reservations()}

    def remains(self, name: str) -> object:
        node = self.ledger.node(name)
        return (node.cards, node.left, node.whole) if node is not None else None

    def check_node(self, name: str) -> None:
        """A node from the holdings alone."""
        node, known = self.ledger.node(name), self.model.nodes.get(name)
        assert (node is None) == (known is None)
        if node is None or known is None:
            return
        here = [held for held in self.model.holdings.values() if held.node == name]
        assert node.left.cpu_milli == known[1].cpu_milli - sum(held.host.cpu_milli for held in here)
        assert [state.card for state in node.cards] == list(known[0].cards)
        slices = [s for held in here if held.grant is not None for s in held.grant.slices()]
        for state in node.cards:
            own = [s for s in slices if s.card == state.card.uuid]
            assert state.free_mib == max(0, state.card.mem_mib - sum(s.mem_mib for s in own))
            assert state.free_slices == max(0, state.card.max_slices - len(own))
            taken = core_mask({core for s in own for core in s.cores})
            assert state.free_cores == ((1 << state.card.core_groups) - 1) & ~taken


def drive(seed: int, events: int) -> Mapping[str, int]:
    """Let `events` things happen and look after each; returns how many of each kind there were."""
    driver = Driver(seed)
    for number in range(events):
        driver.step()
        try:
            driver.check(number)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, event {number}: {error}") from error
    return driver.counts


@pytest.mark.no_cover
def test_random_events_leave_the_store_equal_to_a_model_and_to_its_rebuild() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    counts = drive(seed, EVENTS)
    assert min(counts.values()) > EVENTS // 200, counts


def test_an_error_within_a_transaction_takes_all_of_it_back() -> None:
    driver = Driver(1)
    driver.node()
    before = rebuilt(driver.model)

    def fail() -> None:
        with driver.ledger.transaction() as change:
            driver.put()
            change.commit()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert driver.ledger == before


if __name__ == "__main__":
    seeds = [int(text) for text in sys.argv[2:]] or [random.randrange(2**32)]
    for chosen in seeds:
        print(f"seed {chosen}: {dict(drive(chosen, int(sys.argv[1])))}", flush=True)
