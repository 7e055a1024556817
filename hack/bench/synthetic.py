"""A synthetic workload: cards like Hygon's, pods that ask for memory and core groups in different proportions."""

import random
from pathlib import Path

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.requests import PodRequest, Request
from hack.bench import hygon
from hack.bench.report import BenchError
from hack.bench.workload import FAMILY, BenchNode, BenchPod, BenchWorkload, read

NODES, CARDS, PODS = 100, 8, 2000
# Memory units, core groups and weight of each size, as inference services, notebooks and small trainings ask for.
SLICE_SIZES = (
    ((2, 4), 10), ((2, 15), 8), ((4, 8), 12), ((4, 15), 15), ((4, 30), 6), ((6, 10), 8), ((8, 15), 10), ((8, 30), 12),
    ((10, 20), 6), ((12, 20), 5), ((12, 45), 8),
)  # fmt: skip
WHOLE = ((1, 15), (2, 3), (4, 1), (8, 1))
CPU_MILLI = (1000, 2000, 4000, 8000)


def chosen(nodes: Path | None, pods: Path | None) -> BenchWorkload:
    """The workload in these files, or the synthetic workload if no files are given. Raises VgpuError."""
    if nodes is None and pods is None:
        return synthetic()
    if nodes is None or pods is None:
        raise BenchError("write --nodes and --pods, or neither")
    return read(nodes, pods)


def synthetic(seed: int = 1) -> BenchWorkload:
    """A synthetic workload; equal seeds give equal workloads."""
    rng = random.Random(seed)
    nodes = [
        BenchNode(
            f"node-{n}",
            HostAmounts(rng.choice((64_000, 96_000, 128_000)), 1 << 20),
            Inventory(tuple(hygon.card(f"node-{n}-{i}", FAMILY, i) for i in range(CARDS))),
        )
        for n in range(NODES)
    ]
    kinds: list[tuple[int, tuple[int, int], int]] = [(0, size, weight) for size, weight in SLICE_SIZES]
    kinds += [(count, (0, 0), weight) for count, weight in WHOLE]
    drawn = rng.choices(kinds, [weight for _, _, weight in kinds], k=PODS)
    return BenchWorkload(
        nodes,
        [
            _job(f"pod-{i:05}", whole, *size, rng.choice(CPU_MILLI))
            for i, (whole, size, _) in enumerate(drawn)
        ],
    )


def _job(name: str, whole: int, mem: int, cores: int, cpu_milli: int) -> BenchPod:
    request = Request(FAMILY, whole=whole) if whole else Request(FAMILY, mem=mem, cores=cores)
    room = HostAmounts(cpu_milli * max(1, whole), 1024)
    shares = (float(whole), float(whole)) if whole else (mem / hygon.UNITS, cores / hygon.GROUPS)
    return BenchPod(name, PodRequest(name, (("main", request),), host=room), *shares)
