"""Measure the idle node agent: memory, CPU and API writes with 8 cards and 32 slices, and what its metrics cost.

    hack/agent-footprint [--seconds 30]

The agent is a process of its own in a one-machine cluster whose containers have no processes. The exit status is not 0
above 55 MiB, above 1 % of a core, or after a single write. In a second part, files of the kernel show a process on its
card for each container, and the agent is scraped every 15 s: both together may add at most 0.5 % of a core.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_plugin.core.contract.annotations import GRANT
from hack.embedded.cluster import AGENT_USER, EmbeddedCluster, Options
from hack.embedded.person import PATIENCE_SECONDS, NotInTimeError, Object, Person, phase, read
from hack.embedded.services import ServiceProcess
from hack.measure.one_machine import one_machine
from hack.measure.process_cost import cpu_seconds, rss_mib
from hack.measure.random_pods import FAMILY, at_once
from vgpu_runtime import sim

NODE = "n1"
CARDS, SLICES = 8, 32
SETTLE_SECONDS = 3.0


def main() -> int:
    """Start the cluster, wait until it is idle, and measure; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/agent-footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    cards = sim.parse(f"version: v1\ncards: [{{preset: hygon-60cu-16gib, count: {CARDS}}}]")
    with (
        tempfile.TemporaryDirectory(prefix="vg-proc-") as proc,
        one_machine({NODE: cards}, _options(proc)) as (cluster, person),
    ):
        at_once(person.create, [quarter(f"p{number}") for number in range(SLICES)])
        all_run = until(
            person,
            f"{SLICES} pods to run",
            lambda: [phase(pod) for pod in person.pods()] == ["Running"] * SLICES,
        )
        time.sleep(SETTLE_SECONDS)
        print(f"{CARDS} cards, {SLICES} slices")
        status = measure(cluster, cluster.agents[NODE].pid, f"{AGENT_USER}@{NODE}", seconds, MOST)
        # A pod without a grant gets no process on a card.
        placed = [pod for pod in person.pods() if GRANT in pod["metadata"].get("annotations", {})]
        return int(not all_run) | status | measure_metrics(cluster, Path(proc), placed, seconds)


def until(person: Person, what: str, look: Callable[[], object]) -> bool:
    """Wait for a true result of `look`; false, after a warning, if it does not come in time."""
    try:
        person.until(what, look, PATIENCE_SECONDS)
    except NotInTimeError as error:
        print(f"{error}\nmeasured all the same:", file=sys.stderr)
        return False
    return True


def _options(proc: str) -> Options:
    """Options of the cluster: containers have no processes, and the agent reads the folder `proc` as /proc."""
    return Options(on_start=lambda *_: None, flags=["--proc-root", proc])


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
class CostLimits:
    """The limits of an idle service: MiB of memory, and percent of a CPU core. It may write nothing."""

    mib: float
    cpu: float


MOST = CostLimits(55.0, 1.0)
ROUNDS = 3
# Limit in percent of a CPU core.
MOST_METRICS = 0.5
SCRAPE_SECONDS = 15


def measure(cluster: EmbeddedCluster, pid: int, user: str, seconds: float, most: CostLimits) -> int:
    """Measure an idle process for `seconds`, and print its costs; returns the exit status.

    `user` is the process' name at the API server.
    """
    cluster.api.write_requests.clear()
    before = cpu_seconds(pid)
    time.sleep(seconds)
    cpu = 100 * (cpu_seconds(pid) - before) / seconds
    # Writes of a Lease do not count, because it is always renewed.
    written = [path for by, _, path in list(cluster.api.write_requests) if by == user]
    writes = sum("/leases/" not in path for path in written)
    rss = rss_mib(pid)
    print(f"{seconds:.0f} s idle: RSS {rss:.1f} MiB (at most {most.mib:g})")
    print(f"CPU {cpu:.2f} % of a core (at most {most.cpu:g}), API writes {writes} (at most 0)")
    return int(rss > most.mib or cpu > most.cpu or writes > 0)


def measure_metrics(cluster: EmbeddedCluster, proc: Path, pods: Sequence[Object], seconds: float) -> int:
    """Print the agent's costs for scrapes and for processes on the cards; returns the exit status.

    Each of ROUNDS rounds measures the agent twice: without scrapes and processes, and then with both. Several rounds
    are needed because the machine also does other work.
    """
    agent, machine = cluster.agents[NODE], cluster.root / NODE / "machine"
    costs = []
    for _ in range(ROUNDS):
        without = _cpu_seconds_of(agent, seconds, scrapes=0)
        processes = _use_cards(machine, proc, pods)
        costs.append(_cpu_seconds_of(agent, seconds, scrapes=round(seconds / SCRAPE_SECONDS)) - without)
        for process in processes:
            sim.end_process(machine, process)
    cpu = 100 * sum(costs) / (seconds * ROUNDS)
    print(f"metrics, scraped every {SCRAPE_SECONDS} s: {cpu:.2f} % of a core (at most {MOST_METRICS:g})")
    return int(cpu > MOST_METRICS)


def _cpu_seconds_of(agent: ServiceProcess, seconds: float, scrapes: int) -> float:
    """The CPU seconds that the agent uses in `seconds` while it is scraped `scrapes` times."""
    before = cpu_seconds(agent.pid)
    for _ in range(scrapes):
        time.sleep(seconds / scrapes)
        text = read(f"http://{agent.addresses['http']}", "/metrics")
        if (count := text.count("vgpu_slice_compute_ratio{")) != SLICES:
            print(f"a scrape has the figures of {count} of {SLICES} slices", file=sys.stderr)
    if not scrapes:
        time.sleep(seconds)
    return cpu_seconds(agent.pid) - before


def _use_cards(machine: Path, proc: Path, pods: Sequence[Object]) -> Sequence[int]:
    """Write files of the kernel that show a process of each pod on its card; returns the processes' ids."""
    processes = range(100_000, 100_000 + len(pods))
    for process, pod in zip(processes, pods, strict=True):
        meta = pod["metadata"]
        ((slice_,),) = json.loads(meta["annotations"][GRANT])["containers"].values()
        (proc / str(process)).mkdir(exist_ok=True)
        cgroup = f"0::/kubepods/burstable/pod{meta['uid']}/cri-containerd-1.scope\n"
        (proc / str(process) / "cgroup").write_text(cgroup)
        sim.set_process(machine, process, slice_["card"], mib=1024, queues=8, busy_units=15)
    return processes


if __name__ == "__main__":
    sys.exit(main())
