"""Measure the idle node agent: memory, CPU and API writes with 8 cards and 32 slices.

    hack/agent-footprint [--seconds 30]

The agent is a process of its own in a one-machine cluster whose containers have no processes. Exits non-zero above
50 MiB, 1 % of a core, or a single write.
"""

import argparse
import sys
import time
from dataclasses import dataclass

from hack.embedded.cluster import AGENT_USER, EmbeddedCluster, Options
from hack.embedded.person import Object, phase
from hack.process_cost import cpu_seconds, rss_mib
from hack.trials.one_machine import one_machine
from hack.trials.random_pods import FAMILY, at_once
from vgpu_runtime import sim

NODE = "n1"
CARDS, SLICES = 8, 32
START_SECONDS, SETTLE_SECONDS = 60.0, 3.0


def main() -> int:
    """Start it all, wait until it is quiet, measure."""
    parser = argparse.ArgumentParser(prog="hack/agent-footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    cards = sim.parse(f"version: v1\ncards: [{{preset: hygon-60cu-16gib, count: {CARDS}}}]")
    options = Options(on_start=lambda *_: None)
    with one_machine({NODE: cards}, options) as (cluster, person):
        at_once(person.create, [quarter(f"p{number}") for number in range(SLICES)])
        person.until(
            f"{SLICES} pods to run",
            lambda: [phase(pod) for pod in person.pods()] == ["Running"] * SLICES,
            START_SECONDS,
        )
        time.sleep(SETTLE_SECONDS)
        print(f"{CARDS} cards, {SLICES} slices")
        return measure(cluster, cluster.agents[NODE].pid, f"{AGENT_USER}@{NODE}", seconds, MOST)


def quarter(name: str) -> Object:
    """A pod with a quarter of a card; four fill it."""
    limits = {f"{FAMILY}-mem": "4", f"{FAMILY}-cores": "15"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


@dataclass(frozen=True, slots=True)
class Most:
    """What an idle service may cost: MiB of memory, and percent of a core. It may write nothing."""

    mib: float
    cpu: float


MOST = Most(50.0, 1.0)


def measure(cluster: EmbeddedCluster, pid: int, user: str, seconds: float, most: Most) -> int:
    """Watch the process of this user do nothing, and print what it cost; returns the exit status."""
    cluster.api.write_requests.clear()
    before = cpu_seconds(pid)
    time.sleep(seconds)
    cpu = 100 * (cpu_seconds(pid) - before) / seconds
    # A Lease is a heartbeat: it is renewed whatever happens.
    written = [path for by, _, path in list(cluster.api.write_requests) if by == user]
    writes = sum("/leases/" not in path for path in written)
    rss = rss_mib(pid)
    print(f"{seconds:.0f} s idle: RSS {rss:.1f} MiB (at most {most.mib:g})")
    print(f"CPU {cpu:.2f} % of a core (at most {most.cpu:g}), API writes {writes} (at most 0)")
    return int(rss > most.mib or cpu > most.cpu or writes > 0)


if __name__ == "__main__":
    sys.exit(main())
