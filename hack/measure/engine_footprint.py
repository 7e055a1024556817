"""Measure an idle job engine: memory, CPU and API writes with 1,000 Jobs, of which 64 run and the others wait.

    hack/engine-footprint [--seconds 60]

The engine is a process of its own in a one-machine cluster whose containers have no processes; it asks the node's agent
for progress as it always does. Exits non-zero above 120 MiB, 0.5 % of a core, or a single write other than its Lease's.
"""

import argparse
import sys
import time

from device_plugin.core.contract.annotations import QUEUE
from hack.embedded.cluster import ENGINE_USER, Options
from hack.embedded.person import Object, Person, phase, read
from hack.measure.footprint import CostLimits, measure, quarter, until
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import at_once
from vgpu_runtime import sim

NODE = "n1"
CARDS, RUN, JOBS = 16, 64, 1000
MOST = CostLimits(120.0, 0.5)
# Seconds until the work of the start is done.
SETTLE_SECONDS = 20.0


def main() -> int:
    """Start the cluster, wait until it is idle, and measure; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/engine-footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    cards = sim.parse(f"version: v1\ncards: [{{preset: hygon-60cu-16gib, count: {CARDS}}}]")
    options = Options(on_start=lambda *_: None, engines=1)
    with one_machine({NODE: cards}, options) as (cluster, person):
        at_once(person.create, [queued(f"job-{number}") for number in range(JOBS)])
        (engine,) = cluster.engines
        ready = until(person, f"{RUN} pods to run", lambda: _running(person) == RUN)
        explain = f"http://{engine.addresses['explain']}"
        ready &= until(
            person,
            f"{JOBS} Jobs to be known",
            lambda: read(explain, "/explain").count(" room for ") == JOBS - RUN,
        )
        time.sleep(SETTLE_SECONDS)
        print(f"{JOBS} Jobs, {RUN} of them run")
        return int(not ready) | measure(cluster, engine.pid, ENGINE_USER, seconds, MOST)


def _running(person: Person) -> int:
    return sum(phase(pod) == "Running" for pod in person.pods())


def queued(name: str, **places: str) -> Object:
    """A queued Job with one pod, which asks for a quarter of a card on a node with the labels `places`."""
    container = quarter(name)["spec"]["containers"][0]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUEUE: "default"}},
        "spec": {
            "suspend": True, "completionMode": "Indexed", "completions": 1, "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [container], "nodeSelector": places}
            },
        },
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
