"""Measure the idle node agent: memory, CPU and API writes with 8 cards and 32 slices, and what its metrics cost.

    hack/agent-footprint [--seconds 30]

The agent is a process of its own in a one-machine cluster whose containers have no processes. Exits non-zero above
55 MiB, 1 % of a core, or a single write. Then each container has a process that uses its card, by the kernel's figures,
and the agent is scraped every 15 s: what it takes more for both is at most 0.5 % of a core.
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
    """Start it all, wait until it is quiet, measure."""
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
        # A pod that was not placed has no grant, and so no process on a card.
        placed = [pod for pod in person.pods() if GRANT in pod["metadata"].get("annotations", {})]
        return int(not all_run) | status | measure_metrics(cluster, Path(proc), placed, seconds)


def until(person: Person, what: str, look: Callable[[], object]) -> bool:
    """Wait for a true result of `look`, and say so if it does not come in time: what there is can be measured."""
    try:
        person.until(what, look, PATIENCE_SECONDS)
    except NotInTimeError as error:
        print(f"{error}\nmeasured all the same:", file=sys.stderr)
        return False
    return True


def _options(proc: str) -> Options:
    """Containers have no processes, and the agent finds those of the node in the folder `proc`."""
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
    """The most that an idle service may cost: MiB of memory, and percent of a core. It may write nothing."""

    mib: float
    cpu: float


MOST = CostLimits(55.0, 1.0)
ROUNDS = 3
# Percent of a core.
MOST_METRICS = 0.5
SCRAPE_SECONDS = 15


def measure(cluster: EmbeddedCluster, pid: int, user: str, seconds: float, most: CostLimits) -> int:
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


def measure_metrics(cluster: EmbeddedCluster, proc: Path, pods: Sequence[Object], seconds: float) -> int:
    """Print what scrapes and processes on the cards cost the agent; returns the exit status.

    Each of ROUNDS rounds measures it without and with both, one after the other: the machine does other work as well.
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
    """Seconds of CPU that the agent takes in `seconds`, in which it is scraped `scrapes` times."""
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
    """Give each pod a process that uses its card, as the kernel shows it; returns the processes."""
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
