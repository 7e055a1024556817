"""Many ask at the same time for the last slices of the same cards. `hack/last-slices` does it for longer."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from device_plugin.cluster.filter import Filter
from device_plugin.core.pods import Pod
from tests.builders.cards import inventory
from tests.builders.pods import pod
from tests.cluster.world import Replica, World

ROUNDS = int(os.environ.get("LAST_SLICES_ROUNDS", "150"))
AT_ONCE = 64
# Free in quarters of cards, of 8 cards on 4 nodes; each pod asks for one or two quarters.
NODES = ("n1", "n2", "n3", "n4")
QUARTERS = 32


@pytest.mark.no_cover
def test_the_last_slices_are_reserved_once(world: World, one: Replica) -> None:
    seed = int(os.environ.get("LAST_SLICES_SEED", random.randrange(1 << 30)))
    print(f"{ROUNDS} rounds of {AT_ONCE} filters at once, seed {seed}")
    rng = random.Random(seed)
    for name in NODES:
        world.node(name, inventory(name))
    one.view.node_news.sync(world.api.nodes())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(ROUNDS):
            asking = [pod(f"r{number}-{i}", rng.choice((4, 4, 8)), None) for i in range(AT_ONCE)]
            placed = placed_at_once(pool, one.filter, asking)
            check(one, placed, asking)
            for each in asking:
                one.view.pod_news.gone(each.uid)
            assert not one.view.ledger.grants()


def placed_at_once(pool: ThreadPoolExecutor, place: Filter, asking: list[Pod]) -> dict[str, str]:
    """Of each pod that was answered with a node, that node."""
    together = threading.Barrier(AT_ONCE)

    def ask(each: Pod) -> tuple[str, ...]:
        together.wait()
        return tuple(place(each, NODES).nodes)

    answers = pool.map(ask, asking)
    return {each.uid: nodes[0] for each, nodes in zip(asking, answers, strict=True) if nodes}


def check(one: Replica, placed: dict[str, str], asking: list[Pod]) -> None:
    """Who was told a node holds it there, nobody holds what another does, and nothing that somebody wanted is left."""
    held = one.view.ledger.grants()
    assert {uid: grant.node for uid, grant in held.items()} == placed
    overlaps = [conflict for grant in held.values() for conflict in one.view.ledger.conflicts(grant)]
    assert overlaps == []
    taken = [s.mem_mib // 4092 for grant in held.values() for s in grant.slices()]
    refused_small = any(
        each.uid not in held for each in asking if each.containers[0].limits["hygon.com/dcu-mem"] == "4"
    )
    assert sum(taken) == QUARTERS or not refused_small
