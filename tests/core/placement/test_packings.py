"""Cards packed at random: slices share no compute unit, and each has a mask that its card obeys.

`hack/packings` packs each card 100,000 times.
"""

import os
import random

import pytest

from device_plugin.core import masks
from device_plugin.core.cards import Card, Inventory
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from tests.builders.cards import FAMILY
from tests.builders.requests import slice_request
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
    )
    return made, groups


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
            shape = self.shape
            assert (
                masks.fault(mask, compute_units=shape.compute_units, xcc=shape.xcc, paired=shape.paired) == ""
            )
            assert not any(mask & other for other in self.masks.values()), "two slices share a unit"
            self.masks[pod] = mask

    def end_some(self, rng: random.Random) -> None:
        """End each slice with a probability of one half."""
        for pod in [pod for pod in self.masks if rng.random() < 0.5]:
            assert self.ledger.release(pod)
            del self.masks[pod]


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
