"""A grant that is written is read by the next process, whatever a pod asks for; one that no reader takes is refused."""

import random

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.annotations import GRANT, MAX_BYTES, MAX_COMPUTE_UNITS, MAX_TEXT
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import ALWAYS_FIT, MAX_CONTAINER_NAME, CardSize, Grant, Slice
from tests.builders.cards import FAMILY, card, inventory
from tests.builders.pods import main, pod
from tests.cluster.world import Replica, World


def _next(world: World) -> Replica:
    """A replica that begins now."""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.view.node_news.sync(world.api.nodes())
    two.view.pod_news.sync(world.api.pods())
    two.view.job_news.sync(())
    return two


def test_whole_cards_whose_grant_no_reader_takes_are_refused_with_the_reason() -> None:
    """/bind wrote 76,044 characters, and after a change of leader all 64 cards were free again."""
    world = World()
    world.node("n1", inventory("n1", 64, groups=304))
    world.one.view.node_news.sync(world.api.nodes())
    asked = world.api.put(pod("big", containers=tuple(main({FAMILY: "16"}, f"c{i}") for i in range(4))))
    verdict = world.one.filter(asked, ["n1"])
    assert (verdict.nodes, verdict.error) == ((), "")
    assert verdict.hopeless["n1"].endswith(f" characters, of which {MAX_BYTES} are read: split the pod")
    assert world.one.bind(asked).endswith("split the pod; change the pod as the text says")
    assert world.api.written == []
    assert all(world.one.free())
    fewer = world.api.put(pod("fewer", containers=tuple(main({FAMILY: "16"}, f"c{i}") for i in range(3))))
    assert world.one.ask(fewer) == "n1"


@pytest.mark.parametrize("seed", range(12))
def test_what_is_bound_is_held_in_the_next_process_as_well(seed: int) -> None:
    rng, bound, refused = random.Random(seed), 0, 0
    for number in range(6):
        world = World()
        groups, count = rng.choice((60, 304, MAX_COMPUTE_UNITS)), rng.choice((4, 16, 64))
        uuids = [f"{i:03}".rjust(rng.choice((8, 80, 200)), "u") for i in range(count)]
        cards = [replace(card(uuid, groups=groups), max_slices=16) for uuid in uuids]
        world.node("n1", Inventory(tuple(cards)))
        world.one.view.node_news.sync(world.api.nodes())
        name, wanted = "x" * rng.choice((5, MAX_CONTAINER_NAME - 4)), rng.choice((2, 40, 256))
        limits = rng.choice(
            ({f"{FAMILY}-percent": "6"}, {f"{FAMILY}-mem": "1", f"{FAMILY}-cores": "3"}, {FAMILY: "1"})
        )
        containers = tuple(main(limits, f"c{i:03}{name}") for i in range(wanted))
        made = world.api.put(pod(f"p{number}", containers=containers))
        if world.one.ask(made) == "":
            assert world.one.bind(made) != ""
            refused += 1
        else:
            assert world.one.bind(made) == ""
            assert len(world.api.by_name["default", made.name].annotation(GRANT)) <= MAX_BYTES
            bound += 1
        assert _next(world).free() == world.one.free(), f"seed {seed}"
    assert bound + refused == 6


def test_a_few_slices_fit_whatever_their_names() -> None:
    name = "\U0001f600" * MAX_TEXT
    for number in (1, ALWAYS_FIT):
        cards = [f"{i}{name}"[:MAX_TEXT] for i in range(number)]
        grant = Grant(
            name, name,
            {f"{i}{name}"[:MAX_CONTAINER_NAME]: (Slice(card, 2**40, tuple(range(MAX_COMPUTE_UNITS)), 100),)
             for i, card in enumerate(cards)},
            cards={card: CardSize(2**40, 2**40) for card in cards},
        )  # fmt: skip
        assert grant.too_long == 0
        assert len(grant.encode()) <= MAX_BYTES
