"""How many tickets each resource has, and which of them a sick card makes unhealthy."""

import random
from dataclasses import replace

import msgspec
import pytest

from device_plugin.node.slices.tickets import not_advertised, resources, unhealthy
from tests.node.found import FOUND, card


def test_eight_cards_of_256_gib_are_advertised_whole() -> None:
    cards = [
        msgspec.structs.replace(card(replace(FOUND, mem_mib=256 * 1024)), uuid=f"GPU-{i}") for i in range(8)
    ]
    assert ("hygon.com/dcu-mem", 2048) in [(r.name, r.count) for r in resources(cards)]
    assert not list(not_advertised(cards))


@pytest.mark.parametrize(("unit", "enough"), [(1, 4), (3, 6), (7, 7)])
def test_what_a_kubelet_does_not_bear_is_left_out_and_said_with_the_unit_that_would_do(
    unit: int, enough: int
) -> None:
    cards = [card(unit=unit)]
    assert {r.name: r.count for r in resources(cards)}["hygon.com/dcu-mem"] == min(4096, cards[0].units)
    said = [f"hygon.com/dcu-mem: 4096 of {cards[0].units} are advertised"] if enough > unit else []
    found = list(not_advertised(cards))
    assert [text.partition(",")[0] for text in found] == said
    assert all(f"set memUnitMiB to {enough} on all nodes" in text for text in found)
    assert not list(not_advertised([card(unit=enough)]))


def test_too_many_core_groups_are_left_out_too() -> None:
    cards = [
        msgspec.structs.replace(card(), uuid=f"GPU-{i}", core_groups=100, compute_units=100)
        for i in range(64)
    ]
    said = list(not_advertised(cards))
    assert [text.partition(",")[0] for text in said] == [
        "hygon.com/dcu-cores: 4096 of 6400 are advertised",
        "hygon.com/dcu-percent: 4096 of 6400 are advertised",
    ]
    assert all("excludeCards" in text for text in said)


def test_a_card_has_tickets_of_each_resource() -> None:
    assert [(r.name, r.count) for r in resources([card()])] == [
        ("hygon.com/dcu", 1),
        ("hygon.com/dcu-mem", 16),
        ("hygon.com/dcu-cores", 60),
        ("hygon.com/dcu-percent", 100),
        ("hygon.com/dcu-slices", 4),
    ]


def test_a_sick_card_spoils_its_own_tickets_and_free_ones_up_to_its_size_never_others() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        cards = [msgspec.structs.replace(card(), uuid=f"GPU-{i}") for i in range(rng.randint(1, 4))]
        (resource,) = (r for r in resources(cards) if r.name.endswith("-mem"))
        tickets = resource.tickets()
        rng.shuffle(tickets)
        granted = {c.uuid: {tickets.pop() for _ in range(rng.randint(0, c.units))} for c in cards}
        sick = [c for c in cards if rng.random() < 0.5]
        bad = unhealthy(resource, sick, granted, set().union(*granted.values()))
        for c in cards:
            assert granted[c.uuid] <= bad if c in sick else not granted[c.uuid] & bad
        assert len(bad) == sum(c.units for c in sick)
