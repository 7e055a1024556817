"""hack/burst: how long 60 pods with a slice take to run, against 60 plain pods, on one node of a real cluster.

Each round creates 60 plain pods at once and waits until the last is Running, then 60 pods with a slice. The last
line is the median of the rounds' ratios: `ratio 1.02`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from hack.testbed import images, layout, programs
from hack.testbed.cluster import PROJECT, Cluster, ClusterError
from hack.testbed.install import product

PODS = 60
# Four slices on each card: room for all of them.
CARDS = """\
version: v1
cards:
- {preset: hygon-60cu-16gib, count: 16}
"""
IMAGE = "vgpu.io/workload:0.1.0"
LIMITS = {"hygon.com/dcu-mem": "4", "hygon.com/dcu-cores": "15"}
SECONDS = 300.0


def main() -> int:
    """Run the rounds on a cluster of their own; 0 if they could be run."""
    parser = argparse.ArgumentParser(prog="hack/burst", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of bursts (default: 5)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return _rounds(arguments.rounds)
    cluster = Cluster(layout.here(), programs.installed())
    try:
        programs.ensure()
        if cluster.pid() is not None:
            raise ClusterError(
                "a cluster is up already; the figures are of one node alone: hack/cluster down"
            )
        cluster.up(1, images.build_all())
        try:
            product(cluster, CARDS)
            again = [sys.executable, "-m", "hack.testbed.burst", "--inside", f"--rounds={arguments.rounds}"]
            return cluster.run(["env", f"PYTHONPATH={PROJECT}", *again])
        finally:
            cluster.down()
    except (programs.MissingError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1


def _rounds(count: int) -> int:
    _burst("warm-up", LIMITS)
    ratios = []
    for number in range(1, count + 1):
        plain, sliced = _burst("plain", {}), _burst("slice", LIMITS)
        ratios.append(sliced / plain)
        print(
            f"round {number}: {PODS} plain pods {plain:.2f} s, {PODS} slice pods {sliced:.2f} s", flush=True
        )
    print(f"ratio {statistics.median(ratios):.2f}")
    return 0


def _burst(name: str, limits: dict[str, str]) -> float:
    """Seconds from the first create to the last Running, by our clock; all pods are gone when it returns."""
    pods = [_pod(f"{name}-{number}", limits) for number in range(PODS)]
    watch = _kubectl("get", "pods", "--watch", "--output=jsonpath={.metadata.name} {.status.phase}{'\\n'}")
    begin = time.monotonic()
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
    taken = time.monotonic() - begin
    watch.terminate()
    _run("delete", "pods", "--all", "--wait=true")
    return taken


def _pod(name: str, limits: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "100000"],
        "resources": {"limits": limits},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _kubectl(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(["kubectl", *arguments], stdout=subprocess.PIPE, text=True)


def _run(*arguments: str, given: str = "") -> None:
    subprocess.run(["kubectl", *arguments], input=given, text=True, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
