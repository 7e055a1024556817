"""Measure the idle node agent: memory, CPU and API writes with 8 cards and 32 slices.

    hack/agent-footprint [--seconds 30]

The agent is a process of its own in a one-machine cluster whose containers have no processes. Exits non-zero above
50 MiB, 1 % of a core, or a single write.
"""

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from hack.embedded.cluster import AGENT_USER, EmbeddedCluster, Options
from hack.embedded.person import Object, Person, phase
from hack.process_cost import cpu_seconds, rss_mib
from hack.trials.random_pods import FAMILY, at_once
from vgpu_runtime import sim

NODE = "n1"
CARDS, SLICES = 8, 32
MOST_MIB, MOST_CPU, MOST_WRITES = 50.0, 1.0, 0
START_SECONDS, SETTLE_SECONDS = 60.0, 3.0


def main() -> int:
    """Start it all, wait until it is quiet, measure."""
    parser = argparse.ArgumentParser(prog="hack/agent-footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    cards = sim.parse(f"version: v1\ncards: [{{preset: hygon-60cu-16gib, count: {CARDS}}}]")
    options = Options(on_start=lambda *_: None)
    with (
        tempfile.TemporaryDirectory(prefix="foot-") as folder,
        EmbeddedCluster(Path(folder), {NODE: cards}, options) as cluster,
        closing(Person(cluster.api.url)) as person,
    ):
        at_once(person.create, [quarter(f"p{number}") for number in range(SLICES)])
        person.until(
            f"{SLICES} pods to run",
            lambda: [phase(pod) for pod in person.pods()] == ["Running"] * SLICES,
            START_SECONDS,
        )
        time.sleep(SETTLE_SECONDS)
        return measure(cluster, seconds)


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


def measure(cluster: EmbeddedCluster, seconds: float) -> int:
    """Watch the agent do nothing; returns the exit status."""
    pid = cluster.agents[NODE].pid
    cluster.api.write_requests.clear()
    before = cpu_seconds(pid)
    time.sleep(seconds)
    cpu = 100 * (cpu_seconds(pid) - before) / seconds
    writes = sum(user == f"{AGENT_USER}@{NODE}" for user, _, _ in cluster.api.write_requests)
    rss = rss_mib(pid)
    print(f"{CARDS} cards, {SLICES} slices, {seconds:.0f} s idle")
    print(f"RSS {rss:.1f} MiB (at most {MOST_MIB:.0f}), CPU {cpu:.2f} % of a core (at most {MOST_CPU:.0f})")
    print(f"API writes {writes} (at most {MOST_WRITES})")
    return int(rss > MOST_MIB or cpu > MOST_CPU or writes > MOST_WRITES)


if __name__ == "__main__":
    sys.exit(main())
