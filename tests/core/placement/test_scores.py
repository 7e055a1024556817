"""Scores that were kept equal scores that are made anew, whatever happened in between."""

import random

import pytest

from device_plugin.core.grants import Grant
from device_plugin.core.hosts import Hosts, Room
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Target
from tests.core.placement.test_oracle import NODES, changed, mixed_node, mixed_request


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "random"])
def test_a_placer_that_has_seen_everything_decides_as_one_that_has_seen_nothing(policy: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ledger, hosts, target = Ledger(), Hosts(), Target()
    known = {name: mixed_node(rng, name) for name in NODES}
    for name, inventory in known.items():
        ledger.set_node(name, inventory)
        hosts.set_node(name, Room(64_000, 10_000))
    placer = Placer(ledger, hosts, POLICIES)
    asks = [mixed_request(rng, "") for _ in range(12)]
    for number in range(400):
        request = rng.choice(asks)
        request = type(request)(
            f"p{number}", request.containers, request.models, request.uuids, policy,
            Room(rng.choice((1000, 4000)), 10),
        )  # fmt: skip
        if number % 50 == 0:
            adopted, tables = target.frequent()[:12], None
        if tables is None or tables.kinds != placer.supply()[0]:
            tables = Tables(*placer.supply(), adopted)
            placer.adopt(tables)
        while number % 50 == 0 and not placer.renew(3):
            pass
        fresh = Placer(ledger, hosts, POLICIES)
        fresh.adopt(tables)
        found = placer.place(request)
        assert found == fresh.place(request)
        if (ask := Ask.of(request)) is not None:
            target.add(ask)
        if isinstance(found, Grant):
            ledger.hold(found)
            hosts.hold(found.pod, found.node, request.host)
        if rng.random() < 0.4 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
        if rng.random() < 0.1:
            name = rng.choice(NODES)
            known[name] = changed(rng, name, known[name])
            ledger.set_node(name, known[name])
            hosts.set_node(name, Room(rng.choice((2000, 64_000)), 10_000))
