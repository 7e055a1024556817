"""Scores that were kept equal scores that are made anew, whatever happened in between."""

import random

import numpy as np
import pytest

from device_plugin.core.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.ask import NO_CARD, Ask
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.scores import Scores
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Target
from device_plugin.core.requests import PodRequest, Request
from tests.core.clusters import FAMILY, inventory
from tests.core.placement.test_oracle import NODES, changed, mixed_node, mixed_request


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "random"])
def test_a_placer_that_has_seen_everything_decides_as_one_that_has_seen_nothing(policy: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ledger, target = Ledger(), Target()
    known = {name: mixed_node(rng, name) for name in NODES}
    for name, cards in known.items():
        ledger.set_node(name, cards, HostAmounts(64_000, 10_000))
    placer = Placer(ledger, POLICIES)
    asks = [mixed_request(rng, "") for _ in range(12)]
    for number in range(400):
        request = rng.choice(asks)
        request = type(request)(
            f"p{number}", request.containers, request.models, request.uuids, policy,
            HostAmounts(rng.choice((1000, 4000)), 10),
        )  # fmt: skip
        if number % 50 == 0:
            adopted, tables = target.frequent()[:12], None
        if tables is None or tables.kinds != placer.supply()[0]:
            tables = Tables(*placer.supply(), adopted)
            placer.adopt(tables)
        while number % 50 == 0 and not placer.renew(3):
            pass
        fresh = Placer(ledger, POLICIES)
        fresh.adopt(tables)
        found = placer.place(request)
        assert found == fresh.place(request)
        if (ask := Ask.of(request)) is not None:
            target.add(ask)
        if isinstance(found, Grant):
            ledger.hold(found, request.host)
        if rng.random() < 0.4 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
        if rng.random() < 0.1:
            name = rng.choice(NODES)
            known[name] = changed(rng, name, known[name])
            ledger.set_node(name, known[name], HostAmounts(rng.choice((2000, 64_000)), 10_000))


class Thorough:
    """The policy without its rough one."""

    lasting, rough = True, None

    def __init__(self, policy: ExpectedFill) -> None:
        self.slices, self.whole = policy.slices, policy.whole


def test_looking_only_at_nodes_near_the_best_finds_the_best(rng: random.Random) -> None:
    ledger = Ledger()
    for name in (f"n{i:02}" for i in range(40)):
        host = HostAmounts(rng.choice((2000, 64_000)), 10_000)
        ledger.set_node(name, inventory(name, rng.randint(1, 4)), host)
    placer, target = Placer(ledger, POLICIES), Target()
    asks = [
        Ask(Request(FAMILY, 0, rng.randint(1, 12)), host=HostAmounts(rng.choice((0, 500, 4000))))
        for _ in range(12)
    ]
    asks += [Ask(Request(FAMILY, 1)), Ask(Request(FAMILY, 2)), Ask(NO_CARD)]
    for ask in asks:
        target.add(ask, rng.random())
    tables = Tables(*placer.supply(), target.frequent())
    policy = ExpectedFill(tables.fill, placer.index)
    kept = {ask: Scores(placer.index, ask, policy) for ask in asks}
    for number in range(300):
        ask = rng.choice(asks)
        thorough = Scores(placer.index, ask, Thorough(policy))
        placer.index.refresh()
        thorough.refresh()
        kept[ask].refresh()
        among = np.array([rng.random() < 0.7 for _ in placer.index.nodes]) if rng.random() < 0.5 else None
        found = kept[ask].best(among)
        assert found == thorough.best(among)
        if found is not None:
            assert kept[ask].at(found) == thorough.at(found)
            assert kept[ask].rows(found) == thorough.rows(found)
        request = PodRequest(f"p{number}", (("main", ask.request),), policy="random", host=ask.host)
        if ask.request is not NO_CARD and isinstance(grant := placer.place(request), Grant):
            ledger.hold(grant)
        if rng.random() < 0.3 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
