"""Random clusters, partly filled, and a pod that comes to one of them."""

import random

from msgspec.structs import replace

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.policies import OFFERED
from device_plugin.core.pods import Node, Pod
from tests.builders.cards import CORES, FAMILY, MEM, card
from tests.builders.pods import main, pod
from tests.cluster.world import Clock, FakeApi, Replica

MODELS = ("Z100", "K100")
POLICIES = ("", "", "", *OFFERED)


def random_cluster(rng: random.Random, clock: Clock, pods: int) -> FakeApi:
    """A cluster of 1 to 6 nodes, on which an allocator has bound as many of `pods` random pods as fit."""
    api = FakeApi()
    for number in range(rng.randint(1, 6)):
        api.by_node[f"n{number}"] = random_node(rng, f"n{number}")
    allocator = allocator_of(api, clock)
    for number in range(pods):
        made = api.put(random_pod(rng, f"old-{number}", small=True))
        nodes = offered(allocator, made)
        if nodes and (node := allocator.ask(made, *nodes)):
            assert allocator.bind(made, node) == ""
    return api


def allocator_of(api: FakeApi, clock: Clock) -> Replica:
    """An allocator that has just started, and leads."""
    made = Replica(api, clock)
    made.follow()
    made.lead()
    return made


def offered(allocator: Replica, made: Pod) -> list[str]:
    """The nodes that kube-scheduler offers: those whose hosts have what the pod requests."""
    names = []
    for name in sorted(allocator.api.by_node):
        state = allocator.view.ledger.node(name)
        left, asked = state.left if state is not None else HostAmounts(), made.host
        # What a pod does not request is not compared.
        cpu = not asked.cpu_milli or asked.cpu_milli <= left.cpu_milli
        if cpu and (not asked.memory_mib or asked.memory_mib <= left.memory_mib):
            names.append(name)
    return names


def random_node(rng: random.Random, name: str) -> Node:
    """A node with 1 to 4 cards of 8 or 16 GiB, some of them sick or cordoned, some without an agent that serves."""
    gib = rng.choice((8, 16, 16))
    cards = tuple(
        replace(
            card(f"{name}-{i}", mem_mib=gib * 1024 - 16, healthy=rng.random() > 0.05),
            model=rng.choice(MODELS),
        )
        for i in range(rng.randint(1, 4))
    )
    shown = Inventory(cards, serving=rng.random() > 0.05)
    cordoned = f"{name}-0" if rng.random() < 0.1 else ""
    room = HostAmounts(rng.choice((4_000, 16_000)), 16_384)
    return Node(name, shown.encode(), room=room, cordoned=cordoned)


def random_pod(rng: random.Random, name: str, *, small: bool = False) -> Pod:
    """A pod of one or two containers with a slice or whole cards, by any policy, for some cards or for all."""
    containers = tuple(
        main(random_limits(rng, small=small), f"c{i}") for i in range(rng.choice((1, 1, 1, 1, 2)))
    )
    wanted = {"vgpu.io/policy": rng.choice(POLICIES)}
    if rng.random() < 0.1:
        wanted["vgpu.io/card-model"] = rng.choice((*MODELS, "!Z100", "MI300X"))
    if rng.random() < 0.1:
        wanted["vgpu.io/card-uuid"] = f"{rng.choice(('', '!'))}n0-0"
    if len(containers) == 1 and FAMILY not in containers[0].limits and rng.random() < 0.1:
        wanted["vgpu.io/slices"] = "2"
        doubled = {name: str(2 * int(count)) for name, count in containers[0].limits.items()}
        containers = (main(doubled, "c0"),)
    group = {"vgpu.io/group": f"g{rng.randrange(3)}"} if rng.random() < 0.2 else None
    host = HostAmounts(rng.choice((0, 500, 2_000)), rng.choice((0, 1_024)))
    kept = {key: text for key, text in wanted.items() if text}
    return pod(
        name, containers=containers, annotations=kept or None, labels=group, host=host, owner="ReplicaSet"
    )


def random_limits(rng: random.Random, *, small: bool) -> dict[str, str]:
    """Limits of one container."""
    if rng.random() < 0.1:
        return {FAMILY: str(1 if small else rng.randint(1, 3))}
    if rng.random() < 0.1:
        return {f"{FAMILY}-percent": str(rng.randint(1, 40 if small else 100))}
    most = 6 if small else 17
    limits = {MEM: str(rng.randint(1, most)), CORES: str(rng.randint(1, 24 if small else 61))}
    left_out = rng.choice((None, None, MEM, CORES))
    return {key: text for key, text in limits.items() if key != left_out}
