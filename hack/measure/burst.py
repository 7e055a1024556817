"""hack/burst: how long 60 pods with a slice take to run, against 60 plain pods, on one node of a real cluster.

Each round creates 60 plain pods at once and waits until the last is Running, then 60 pods with a slice. A round begins
only when the kubelet has removed the sandboxes of the round before: the kubelet does this once a minute, it takes
seconds of CPU, and it would slow one of the two bursts. The last line is the median of the rounds' ratios:
`ratio 1.02`. With --cpu, a table shows the CPU time of each program in a burst of either kind. A kubelet of 1.36 writes
the status of a pod with devices each time that it looks at the pod (kubernetes#142293). To measure without this:

    hack/burst --kubelet-gate ResourceHealthStatus=false --kubelet-gate ResourceHealthStatusMessage=false
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hack.testbed import cpu, images, layout, node, programs
from hack.testbed.cluster import PROJECT, Cluster, ClusterError
from hack.testbed.install import product
from hack.testbed.supervisor import order

PODS = 60
# Four slices on each card, so that all pods fit.
CARDS = """\
version: v1
cards:
- {preset: hygon-60cu-16gib, count: 16}
"""
IMAGE = "vgpu.io/workload:0.1.0"
LIMITS = {"hygon.com/dcu-mem": "4", "hygon.com/dcu-cores": "15"}
SECONDS = 300.0
LOOK_SECONDS = 0.5
# CPU seconds below which a program is left out of the table.
LEAST_SECONDS = 0.05


def main() -> int:
    """Start a cluster, run the rounds on it, and end it; returns 0 if the rounds could be run."""
    parser = argparse.ArgumentParser(
        prog="hack/burst", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of bursts (default: 5)")
    parser.add_argument("--cpu", action="store_true", help="print CPU seconds by program as well")
    parser.add_argument(
        "--kubelet-gate", type=_gate, action="append", default=[], metavar="NAME=BOOL",
        help="a feature gate of the kubelet that is not as Kubernetes has it; may repeat",
    )  # fmt: skip
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return _rounds(arguments.rounds, cpu_too=arguments.cpu)
    cluster = Cluster(layout.here(), programs.installed())
    try:
        programs.ensure()
        if cluster.pid() is not None:
            raise ClusterError(
                "a cluster is up already; the figures are of one node alone: hack/cluster down"
            )
        cluster.up(1, images.build_all(), dict(arguments.kubelet_gate))
        try:
            product(cluster, cards=CARDS)
            again = [sys.executable, "-m", "hack.measure.burst", "--inside", *sys.argv[1:]]
            return cluster.run(["env", f"PYTHONPATH={PROJECT}", *again])
        finally:
            cluster.down()
    except (programs.MissingError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1


@dataclass(frozen=True)
class Burst:
    """The figures of a burst: its time in seconds, and the CPU seconds of each program in that time."""

    taken: float
    cpu: Mapping[str, float]


def _rounds(count: int, *, cpu_too: bool) -> int:
    lasting = _containers()
    _burst("warm-up", LIMITS)
    rounds = []
    for number in range(1, count + 1):
        await_clearance(_containers, lasting)
        plain, sliced = _burst("plain", {}), _burst("slice", LIMITS)
        rounds.append((plain, sliced))
        print(
            f"round {number}: {PODS} plain pods {plain.taken:.2f} s, {PODS} slice pods {sliced.taken:.2f} s",
            flush=True,
        )
    if cpu_too:
        _print_cpu([plain for plain, _ in rounds], [sliced for _, sliced in rounds])
    print(f"ratio {statistics.median(sliced.taken / plain.taken for plain, sliced in rounds):.2f}")
    return 0


def await_clearance(containers: Callable[[], int], lasting: int) -> None:
    """Wait until at most `lasting` containers are left. Raises SystemExit after SECONDS."""
    begin = time.monotonic()
    while (left := containers() - lasting) > 0:
        if time.monotonic() - begin > SECONDS:
            raise SystemExit(f"the kubelet does not clear away {left} containers of pods that are gone")
        time.sleep(LOOK_SECONDS)


def _containers() -> int:
    """The number of containers in the node's runtime, sandboxes and ended ones included."""
    (name,) = layout.node_names(1)
    listed = order(layout.here().control(name), "run", command=[*node.CTR, "containers", "list", "--quiet"])
    if listed["status"]:
        raise SystemExit(f"containerd: {listed['output']}")
    return len(str(listed["output"]).split())


def _print_cpu(plain: Sequence[Burst], sliced: Sequence[Burst]) -> None:
    """Print the CPU seconds of an average burst; programs for which slices cost most come first."""
    names = {name for burst in (*plain, *sliced) for name in burst.cpu} - {cpu.MACHINE}
    rows = [(name, _mean(plain, [name]), _mean(sliced, [name])) for name in names]
    rows = sorted((row for row in rows if max(row[1:]) >= LEAST_SECONDS), key=lambda row: row[1] - row[2])
    rows.append(("all of the cluster", _mean(plain, names), _mean(sliced, names)))
    rows.append((cpu.MACHINE, _mean(plain, [cpu.MACHINE]), _mean(sliced, [cpu.MACHINE])))
    print(f"{'CPU seconds of a burst':<32}{'plain':>8}{'slice':>8}{'more':>8}")
    for name, before, after in rows:
        print(f"{name:<32}{before:>8.2f}{after:>8.2f}{after - before:>+8.2f}")


def _mean(bursts: Sequence[Burst], names: Collection[str]) -> float:
    return statistics.fmean(sum(burst.cpu.get(name, 0.0) for name in names) for burst in bursts)


def _burst(name: str, limits: dict[str, str]) -> Burst:
    """Create the pods, measure until the last is Running by our clock, delete them, and return the figures."""
    pods = [_pod(f"{name}-{number}", limits) for number in range(PODS)]
    watch = _kubectl("get", "pods", "--watch", "--output=jsonpath={.metadata.name} {.status.phase}{'\\n'}")
    before, begin = cpu.look(), time.monotonic()
    _run("create", "--filename", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    missing = {pod["metadata"]["name"] for pod in pods}
    assert watch.stdout is not None  # noqa: S101 - Popen was given a pipe
    for line in watch.stdout:
        pod, _, phase = line.strip().partition(" ")
        if phase == "Failed" or time.monotonic() - begin > SECONDS:
            raise SystemExit(f"{pod} is {phase}; {len(missing)} pods do not run")
        if phase == "Running":
            missing.discard(pod)
        if not missing:
            break
    burst = Burst(time.monotonic() - begin, cpu.spent(before, cpu.look()))
    watch.terminate()
    _run("delete", "pods", "--all", "--wait=true")
    return burst


def _pod(name: str, limits: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "100000"],
        "resources": {"limits": limits},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _gate(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if not name or value not in ("true", "false"):
        raise argparse.ArgumentTypeError("write NAME=true or NAME=false")
    return name, value == "true"


def _kubectl(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(["kubectl", *arguments], stdout=subprocess.PIPE, text=True)


def _run(*arguments: str, given: str = "") -> None:
    subprocess.run(["kubectl", *arguments], input=given, text=True, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
