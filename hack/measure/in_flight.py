"""Trial: many pods in flight on one node at once, and every container must get its own pod's grant.

    hack/in-flight --seeds 1000

One seed is one round: 40 random pods are created at once on a node of 16 cards; the kubelet stand-in calls Allocate in
random order and PreStartContainer concurrently, over a CDI cache that lags. The last line sums up.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hack.embedded.cluster import Options
from hack.embedded.person import PATIENCE_SECONDS, Object, Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FLAGS, at_once, random_pod
from hack.measure.witness import Witness
from vgpu_runtime import sim

NODE = "n"
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 16}\n"


@dataclass
class TrialResult:
    """The counts over all rounds."""

    containers: int = 0
    mismatches: int = 0
    failed: int = 0
    overlaps: int = 0

    def __str__(self) -> str:
        """The last line of the output."""
        return f"mismatches {self.mismatches}, failed {self.failed}, overlaps {self.overlaps}"

    @property
    def good(self) -> bool:
        """True if at least one container was started, and no count of faults is above 0."""
        return self.containers > 0 and not (self.mismatches or self.failed or self.overlaps)


def run(seeds: Sequence[int], pods: int) -> TrialResult:
    """Run one round per seed on the same cluster; returns the counts."""
    witness = Witness()
    cards = sim.parse(CARDS)
    result = TrialResult()
    options = Options(seed=seeds[0], on_start=witness, flags=FLAGS)
    with one_machine({NODE: cards}, options) as (_, person):
        for seed in seeds:
            began = time.monotonic()
            _round(person, witness, cards, seed, pods, result)
            print(f"seed {seed}: {time.monotonic() - began:.1f} s; {result}", flush=True)
    result.containers = witness.started
    for fault in witness.wrong[:10]:
        print(fault)
    return result


def _round(
    person: Person, witness: Witness, cards: Sequence[sim.SimCard], seed: int, pods: int, result: TrialResult
) -> None:
    rng = random.Random(seed)
    names = [f"s{seed}-p{i}" for i in range(pods)]
    at_once(person.create, [random_pod(rng, name) for name in names])

    def settled() -> list[Object] | None:
        shown = person.pods()
        done = [pod for pod in shown if phase(pod) in ("Running", "Failed")]
        return shown if len(done) == pods else None

    shown = person.until(f"{pods} pods of seed {seed} to run", settled, PATIENCE_SECONDS)
    running = {pod["metadata"]["uid"] for pod in shown if phase(pod) == "Running"}
    result.failed += pods - len(running)
    overlaps = witness.overlaps(running, cards)
    result.overlaps += len(overlaps)
    for text in overlaps[:10]:
        print(text)
    at_once(person.remove, names)
    person.until("all pods to be gone", lambda: not person.pods(), PATIENCE_SECONDS)
    witness.forget()
    result.mismatches = len(witness.wrong)


def main(argv: Sequence[str] | None = None) -> int:
    """Run hack/in-flight with these arguments; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/in-flight", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many rounds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--pods", type=int, default=40, help="pods of each round")
    args = parser.parse_args(argv)
    if min(args.seeds, args.pods) < 1:
        parser.error("write --seeds and --pods of at least 1")
    result = run(range(args.first, args.first + args.seeds), args.pods)
    print(f"{args.seeds} seeds, {args.seeds * args.pods} pods, {result.containers} containers started")
    print(result)
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
