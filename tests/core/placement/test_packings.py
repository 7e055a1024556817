"""Cards packed at random: slices share no compute unit, and each has a mask that its card obeys.

`hack/packings` packs each card 100,000 times, and lets as many pods of all kinds come and end on nodes of such cards.
"""

import os
import random

import pytest
from msgspec.structs import replace

from device_plugin.core.contract import masks
from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY
from tests.builders.requests import percent_request, slice_request
from vgpu_runtime.rocm import RocmLimit
from vgpu_runtime.sim.cards import PRESETS, SimCard

PACKINGS = int(os.environ.get("PACKINGS_PACKINGS", "100"))
MAX_SLICES = 16
SHAPES = [name for name, shape in PRESETS.items() if shape.kfd]


def card(shape: SimCard) -> tuple[Card, int]:
    """The card as an agent publishes it, and its core groups."""
    per_group = masks.group_units(xcc=shape.xcc, paired=shape.paired)
    groups, units = shape.compute_units // per_group, round(shape.memory_mib / 1024)
    made = Card(
        "c",
        FAMILY,
        shape.name,
        "0000:19:00.0",
        shape.memory_mib,
        units,
        shape.compute_units,
        groups,
        per_group,
        MAX_SLICES,
        numa=-1,
        healthy=True,
    )
    return made, groups


def obeyed(shape: SimCard, mask: int) -> None:
    """Fails where the library would refuse the mask on a card of this shape."""
    RocmLimit(1, 128, shape.compute_units, shape.xcc, shape.paired, mask)


class Packing:
    """One card, and the masks of the slices that it has now, by pod."""

    def __init__(self, shape: SimCard) -> None:
        self.shape = shape
        self.card, self.groups = card(shape)
        self.ledger = Ledger()
        self.ledger.set_node("n", Inventory((self.card,)))
        self.placer = Placer(self.ledger)
        self.masks: dict[str, int] = {}

    def fill(self, rng: random.Random, number: int) -> None:
        """Place slices of random sizes until one does not fit."""
        while True:
            pod = f"p{number}-{len(self.masks)}-{rng.getrandbits(32)}"
            mem = rng.choice((None, rng.randint(1, max(1, self.card.units // 2))))
            cores = rng.randint(1, max(1, self.groups // 2)) if mem is None else rng.choice((None, 1, 2, 3))
            grant = self.placer.place(slice_request(pod, mem, cores))
            if not isinstance(grant, Grant):
                return
            assert self.ledger.hold(grant) == ()
            (given,) = grant.slices()
            mask = masks.unit_mask(given.cores, self.card.group_units)
            obeyed(self.shape, mask)
            assert not any(mask & other for other in self.masks.values()), "two slices share a unit"
            self.masks[pod] = mask

    def end_some(self, rng: random.Random) -> None:
        """End each slice with a probability of one half."""
        for pod in [pod for pod in self.masks if rng.random() < 0.5]:
            assert self.ledger.release(pod)
            del self.masks[pod]


class Mix:
    """Three nodes of such cards, on which pods of all kinds come and end."""

    NODES, CARDS = 3, 4

    def __init__(self, shape: SimCard) -> None:
        self.shape = shape
        made, _ = card(shape)
        self.ledger = Ledger()
        for node in range(self.NODES):
            cards = tuple(replace(made, uuid=f"{node}-{i}", numa=i // 2) for i in range(self.CARDS))
            self.ledger.set_node(f"n{node}", Inventory(cards))
        self.card = made
        self.placer = Placer(self.ledger)
        self.grants: dict[str, Grant] = {}

    def request(self, rng: random.Random, pod: str) -> PodRequest:
        """Whole cards, a part by memory, core groups or percent, or slices of several cards."""
        kind, count = rng.random(), rng.choice((1, 1, 1, 2, 3))
        if kind < 0.1:
            asked = Request(FAMILY, rng.randint(1, 2), max_slices=rng.choice((None, self.card.max_slices)))
        elif kind < 0.5:
            asked = Request(FAMILY, percent=rng.choice((1, 5, 10, 25, 25, 33, 50, 100)), count=count)
        else:
            mem = rng.choice((None, rng.randint(1, self.card.units)))
            cores = rng.randint(1, self.card.core_groups) if mem is None else rng.choice((None, 1, 2, 3))
            asked = Request(FAMILY, 0, mem, cores, count=count)
        return PodRequest(pod, (("main", asked),))

    def come(self, rng: random.Random, number: int) -> None:
        """Place one pod, and end pods at random until it fits."""
        request = self.request(rng, f"p{number}")
        ((_, asked),) = request.containers
        while not isinstance(grant := self.placer.place(request), Grant):
            ended = rng.choice(sorted(self.grants))
            assert self.ledger.release(ended)
            del self.grants[ended]
        assert self.ledger.hold(grant) == ()
        assert Grant.decode(grant.encode()) == grant
        self.grants[request.pod] = grant
        given = grant.containers["main"]
        assert len({s.card for s in given}) == asked.cards == len(given)
        for s in given:
            self.obey(s, asked)
        self.check(grant.node)

    def obey(self, s: Slice, asked: Request) -> None:
        """The slice is what was asked for, and its mask obeys the rules of the card."""
        made = self.card
        obeyed(self.shape, masks.unit_mask(s.cores, made.group_units))
        if asked.percent is not None:
            exact = asked.percent * made.core_groups / 100
            assert s.mem_mib == asked.percent * made.mem_mib // 100
            assert abs(len(s.cores) - exact) < 1 or len(s.cores) == 1

    def check(self, node: str) -> None:
        """No two slices of a card share a core group; memory and the number of slices are within the card's."""
        held: dict[str, list[Slice]] = {}
        for grant in self.grants.values():
            if grant.node == node:
                for s in grant.slices():
                    held.setdefault(s.card, []).append(s)
        for slices in held.values():
            groups = [group for s in slices for group in s.cores]
            assert len(set(groups)) == len(groups)
            assert sum(s.mem_mib for s in slices) <= self.card.mem_mib
            assert len(slices) <= self.card.max_slices


@pytest.mark.timeout(max(120, PACKINGS // 10))
@pytest.mark.parametrize("shape", SHAPES)
def test_slices_of_a_packed_card_share_no_unit_and_obey_its_rules(shape: str) -> None:
    seed = int(os.environ.get("PACKINGS_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    rng, packing, slices = random.Random(seed), Packing(PRESETS[shape]), 0
    for number in range(PACKINGS):
        packing.fill(rng, number)
        slices += len(packing.masks)
        packing.end_some(rng)
    assert slices >= PACKINGS, "hardly anything was packed"


@pytest.mark.timeout(max(120, PACKINGS // 10))
@pytest.mark.parametrize("shape", SHAPES)
def test_pods_of_all_kinds_that_come_and_end_keep_every_invariant(shape: str) -> None:
    seed = int(os.environ.get("PACKINGS_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    rng, mix = random.Random(seed), Mix(PRESETS[shape])
    for number in range(PACKINGS):
        mix.come(rng, number)
    again = Ledger()
    for node, inventory in mix.ledger.inventories().items():
        again.set_node(node, inventory)
    for grant in mix.grants.values():
        assert again.hold(Grant.decode(grant.encode())) == ()
    assert again == mix.ledger, "a ledger rebuilt from grants is the live one"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("percent", "times"), [(25, 4), (33, 3), (10, 10), (50, 2), (100, 1)])
def test_parts_in_percent_fill_a_card(shape: str, percent: int, times: int) -> None:
    packing = Packing(PRESETS[shape])
    for number in range(times):
        grant = packing.placer.place(percent_request(f"p{number}", percent))
        assert isinstance(grant, Grant), grant.text
        assert packing.ledger.hold(grant) == ()
    node = packing.ledger.node("n")
    assert node is not None
    state = node.cards[0]
    assert packing.groups - state.free_cores.bit_count() == percent * times * packing.groups // 100
    assert state.free_mib <= packing.card.mem_mib * (100 - percent * times) // 100 + times
