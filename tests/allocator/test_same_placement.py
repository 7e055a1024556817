"""Through HTTP the same pods get the same cards as in process, and asking again changes nothing."""

import http.client
import json
import random
from collections.abc import Iterator

import pytest

from device_plugin.adapters import extender
from device_plugin.adapters.http.server import Server
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.policies import WorkloadTables
from tests.builders import objects
from tests.builders.cards import FAMILY, inventory
from tests.cluster.world import Replica, World

NODES = [f"n{i}" for i in range(1, 9)]
POLICY = "vgpu.io/policy"


@pytest.fixture
def connection(one: Replica) -> Iterator[http.client.HTTPConnection]:
    served = one.extender()
    with Server(served.app(), "127.0.0.1:0", early=served.early) as server:
        made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        yield made
        made.close()


def random_pod(rng: random.Random, name: str) -> dict[str, object]:
    """Slices and whole cards, one container or two, by any policy; with requests of CPU."""
    containers = []
    for number in range(rng.choice((1, 1, 1, 2))):
        kind = rng.random()
        if kind < 0.1:
            limits = {FAMILY: "1"}
        else:
            limits = {f"{FAMILY}-mem": str(rng.randint(1, 8))}
            if kind > 0.5:
                limits[f"{FAMILY}-cores"] = str(rng.randint(1, 30))
        requests = {"cpu": rng.choice(("100m", "2")), "memory": "1Gi"}
        resources = {"limits": limits, "requests": requests}
        containers.append(objects.container(f"c{number}", resources=resources))
    policy = rng.choice([name for name in POLICIES if name != "random"])
    own = {POLICY: policy} if rng.random() < 0.7 else {}
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": own}
    return objects.pod(name, metadata=metadata, containers=containers)


def asked(connection: http.client.HTTPConnection, pod: dict[str, object]) -> list[str]:
    connection.request("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": NODES}).encode())
    answer = json.loads(connection.getresponse().read())
    assert answer["Error"] == ""
    nodes: list[str] = answer["NodeNames"]
    return nodes


@pytest.mark.no_cover
def test_the_same_pods_get_the_same_cards(
    world: World, one: Replica, connection: http.client.HTTPConnection, rng: random.Random
) -> None:
    ledger = Ledger()
    for name in NODES:
        world.node(name, inventory(name))
        ledger.set_node(name, inventory(name))
    one.view.node_news.sync(world.api.nodes())
    inside = Placer(ledger)
    granted = refused = 0
    for number in range(250):
        if number == 60:
            one.allocator.learning.count(float("inf"))
            tables = WorkloadTables(*inside.supply(), one.allocator.learning.target.copy().frequent())
            inside.install(tables)
            one.allocator.placer.install(tables)
        pod = random_pod(rng, f"p{number}")
        nodes = asked(connection, pod)
        read, _ = extender.FilterCalls()(json.dumps({"Pod": pod, "NodeNames": NODES}).encode())
        one.view.pod_news.see(read, watched=True)
        request = one.view.pods.request_of(read)
        assert request is not None
        expected = inside.place(request, NODES, vetted=True)
        held = one.view.ledger.grant(read.uid)
        if isinstance(expected, Grant):
            granted += 1
            assert (held, nodes) == (expected, [expected.node])
            ledger.hold(expected, read.host)
        else:
            refused += 1
            assert (held, nodes) == (None, [])
        assert asked(connection, pod) == nodes
        assert one.view.ledger.grant(read.uid) == held
        if rng.random() < 0.5 and ledger.grants():
            ended = rng.choice(sorted(grant.pod for grant in ledger.grants().values()))
            one.view.pod_news.gone(ended)
            ledger.release(ended)
    assert one.view.ledger.grants() == ledger.grants()
    for name in NODES:
        through, within = one.view.ledger.node(name), ledger.node(name)
        assert through is not None
        assert within is not None
        assert (through.cards, through.left) == (within.cards, within.left)
    assert min(granted, refused) > 10
