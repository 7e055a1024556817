"""Many pods at once: all that fit run, the rest say why, and no two hold the same."""

import random
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.e2e import service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import Held, cards, check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

PODS_PER_CARD = 10
MIB = 1 << 20
# What the allocator says, or kube-scheduler itself where a node's tickets do not suffice.
WHY = r"lack (memory|core groups)|full \(|Insufficient hygon.com/dcu"
SIZES = ((1, 4), (2, 8), (4, 15), (4, 30), (8, 30), (16, 60))


def settled(kubectl: Kubectl) -> tuple[list[Any], list[Any]] | None:
    """(running, waiting) pods once each of them is either; None before that."""
    pods = kubectl.items()
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    waiting = [pod for pod in pods if _unschedulable(pod)]
    return (running, waiting) if len(running) + len(waiting) == len(pods) else None


def _unschedulable(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


def slices_of(kubectl: Kubectl, pods: list[Any]) -> list[Held]:
    """What all these pods' own config files say."""
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda pod: held(kubectl, pod["metadata"]["name"]), pods)
        return [one for slices in found for one in slices]


def fitting(waiting: list[Any], slices: list[Held]) -> list[str]:
    """Which of the waiting pods would fit on some card."""
    known = cards()
    free = {
        uuid: [card["memMiB"] * MIB, card["coreGroups"], card["maxSlices"]] for uuid, card in known.items()
    }
    for one in slices:
        card = known[one.card]
        left = free[one.card]
        left[0] -= one.mem_bytes
        left[1] -= len(one.units) // card["groupUnits"]
        left[2] -= 1
    names = []
    for pod in waiting:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        mem, cores = int(limits["hygon.com/dcu-mem"]), int(limits["hygon.com/dcu-cores"])
        for uuid, (memory, groups, count) in free.items():
            need = mem * known[uuid]["memMiB"] // known[uuid]["units"] * MIB
            if need <= memory and cores <= groups and count:
                names.append(pod["metadata"]["name"])
                break
    return names


def no_room_is_left(kubectl: Kubectl) -> bool:
    """True if each pod runs or waits, and none of those that wait would fit; asserts that no two hold the same."""
    found = settled(kubectl)
    if found is None:
        return False
    running, waiting = found
    slices = slices_of(kubectl, running)
    check_disjoint(slices)
    assert len(slices) == len(running)
    return fitting(waiting, slices) == []


def told_why(kubectl: Kubectl, name: str) -> bool:
    return any(re.search(WHY, event) for event in kubectl.events(name))


def test_all_that_fit_run_and_the_rest_say_why(kubectl: Kubectl, rng: random.Random) -> None:
    sizes = [rng.choice(SIZES) for _ in range(PODS_PER_CARD * len(cards()))]
    kubectl.create(*(slice_pod(f"p{i}", mem, cores) for i, (mem, cores) in enumerate(sizes)))
    assert eventually(lambda: settled(kubectl), 180), kubectl("get", "pods")
    # A pod that was refused while another one's Binding was under way is asked for again if that failed.
    assert eventually(lambda: no_room_is_left(kubectl), 60)
    waiting = [pod["metadata"]["name"] for pod in kubectl.items() if _unschedulable(pod)]
    assert waiting, "the burst was meant to ask for more than there is"
    for name in waiting:
        assert eventually(partial(told_why, kubectl, name), 30), kubectl.events(name)
    # Once they have been there for a minute, so many pods have taught the service what to expect, and how much of the
    # cards is of no use to that.
    ratios = eventually(fragmentation, 120, every=2)  # each look takes a kubectl
    assert ratios
    assert 0 <= ratios[0] < 1


def fragmentation() -> list[float]:
    """vgpu_fragmentation_ratio of the leader; empty as long as it has not learnt what pods ask for."""
    lines = service.SYSTEM.metrics(service.leader(), service.CLUSTER_PORT).splitlines()
    return [float(line.split()[1]) for line in lines if line.startswith("vgpu_fragmentation_ratio ")]
