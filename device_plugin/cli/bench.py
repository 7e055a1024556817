"""`vgpu bench placement`: how fast the real core decides, on a synthetic workload.

    vgpu bench placement --nodes 500 --cards 8 --fill 0.5

Cards are filled to the given share first; then every timed decision places one pod, holds its grant and releases a
random other, so that the fill stays where it is. One thread.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator

from device_plugin.core.cards import Card, Inventory
from device_plugin.core.errors import VgpuError
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest, Request

FAMILY = "hygon.com/dcu"
CARD_MIB, CARD_UNITS, CARD_GROUPS, CARD_SLICES = 16368, 16, 60, 4


class BenchError(VgpuError):
    """The workload cannot be made as asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu bench`."""
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    placement = kinds.add_parser("placement", help="decisions per second of place(), in process")
    placement.add_argument("--nodes", type=int, default=500)
    placement.add_argument("--cards", type=int, default=8, help="cards of each node")
    placement.add_argument(
        "--fill", type=float, default=0.5, help="share of all memory that is granted beforehand"
    )
    placement.add_argument("--decisions", type=int, default=5000)
    placement.add_argument("--policy", default="pack")
    placement.add_argument("--seed", type=int, default=42)
    placement.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Run the benchmark and print its figures."""
    if args.nodes < 1 or not 1 <= args.cards <= 64 or not 0 <= args.fill <= 0.9 or args.decisions < 1:
        raise BenchError(
            "write --nodes and --decisions of at least 1, --cards from 1 to 64, --fill from 0 to 0.9"
        )
    ledger = _cluster(args.nodes, args.cards)
    placer = Placer(ledger)
    rng = random.Random(args.seed)
    pods = _pods(rng, args.policy)
    _fill(ledger, placer, pods, args.fill * args.nodes * args.cards * CARD_MIB)
    seconds = _decide(ledger, placer, pods, rng, args.decisions)
    figures = {
        "nodes": args.nodes,
        "cards": args.nodes * args.cards,
        "slices": len(ledger.grants()),
        "decisions_per_s": round(len(seconds) / sum(seconds)),
        "us_median": round(statistics.median(seconds) * 1e6),
        "us_p99": round(statistics.quantiles(seconds, n=100)[98] * 1e6) if len(seconds) > 1 else None,
    }
    if args.json:
        print(json.dumps(figures))
    else:
        print(
            f"{figures['nodes']} nodes, {figures['cards']} cards, {figures['slices']} slices held (seed {args.seed})\n"
            f"{figures['decisions_per_s']} decisions/s; one takes {figures['us_median']} us in the median,"
            f" {figures['us_p99']} us at p99 (place, hold, release)"
        )
    return 0


def _cluster(nodes: int, cards: int) -> Ledger:
    ledger = Ledger()
    for n in range(nodes):
        name = f"node-{n:05}"
        ledger.set_node(name, Inventory(tuple(_card(f"{name}-{i:02}") for i in range(cards))))
    return ledger


def _card(uuid: str) -> Card:
    return Card(
        uuid, FAMILY, "Z100", "0000:19:00.0", CARD_MIB, CARD_UNITS, CARD_GROUPS, CARD_GROUPS, 1, CARD_SLICES
    )


def _pods(rng: random.Random, policy: str) -> Iterator[PodRequest]:
    """Half ask for memory alone, a quarter for core groups alone, a quarter for both."""
    number = 0
    while True:
        mem, cores = rng.randint(1, 8), rng.randint(4, 30)
        kind = rng.random()
        request = Request(FAMILY, 0, mem if kind < 0.75 else None, cores if kind >= 0.5 else None)
        yield PodRequest(f"pod-{number}", (("main", request),), policy=policy)
        number += 1


def _fill(ledger: Ledger, placer: Placer, pods: Iterator[PodRequest], target_mib: float) -> None:
    held = 0
    while held < target_mib:
        grant = placer.place(next(pods))
        if not isinstance(grant, Grant):
            raise BenchError(f"the cluster is full before that share: {grant.text}; write a smaller --fill")
        ledger.hold(grant)
        held += sum(s.mem_mib for s in grant.slices())


def _decide(
    ledger: Ledger, placer: Placer, pods: Iterator[PodRequest], rng: random.Random, count: int
) -> list[float]:
    """Seconds that each of `count` decisions took: place, hold, and the release of a random pod."""
    names, live, seconds = ledger.nodes(), list(ledger.grants()), []
    for _ in range(count):
        request = next(pods)
        start = time.perf_counter()
        grant = placer.place(request, names)
        if isinstance(grant, Grant):
            ledger.hold(grant)
            live.append(grant.pod)
        if live:
            position = rng.randrange(len(live))
            live[position], live[-1] = live[-1], live[position]
            ledger.release(live.pop())
        seconds.append(time.perf_counter() - start)
    return seconds
