"""hack/scheduler-cost: the CPU time of each program for a placed pod, with a real API server and kube-scheduler.

Pods come in one burst, each for a slice; measured is the time until all are bound. Some slices are held before. The
first table is per placed pod: kube-scheduler, API server, etcd and allocator. --flame FILE draws kube-scheduler's own
profile of these seconds as SVG, with its calls to the allocator in blue.

With --ask-by claims the pods ask by ResourceClaims, and with --ask-by plugin kube-scheduler's own plugin
DynamicResources allocates such claims, as for any DRA driver.

Nodes are objects with an inventory; nothing runs on them, and no root is needed. The scheduler's configuration is the
one in manifests/. The logs stay in ~/.cache/vgpu/scheduler-cost until the next run.
"""

import argparse
import random
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from device_plugin.core.contract import annotations
from device_plugin.kube.api import PODS, Where
from device_plugin.kube.errors import ApiError
from hack.bench import hygon
from hack.bench.extender.cluster_model import ClusterModel
from hack.measure import go_profile
from hack.measure.scheduled_cluster import (
    CARDS,
    Asking,
    ScheduledCluster,
    all_at_once,
    claiming_pod,
    make_nodes,
    pod_body,
    running,
    show_devices,
)
from hack.testbed import bare, programs
from vgpu_runtime.sim.hip import default_cache

HELD, NEW = "held", "new"
SETTLE_SECONDS = 1800.0
MOST_MEM = 8
# kube-scheduler's calls to /filter and /bind.
EXTENDER = "HTTPExtender"


def main() -> int:
    """Start a control plane, place the pods, and end it; returns 0 if they could be placed."""
    parser = argparse.ArgumentParser(
        prog="hack/scheduler-cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, help=f"of {CARDS} cards each (default: 5000)")
    parser.add_argument(
        "--fill", type=float, default=0.1, help="share of all memory held before (default: 0.1)"
    )
    parser.add_argument("--pods", type=int, default=2000, help="placed while it is measured (default: 2000)")
    parser.add_argument(
        "--flame", type=Path, metavar="FILE", help="an SVG picture of kube-scheduler's profile"
    )
    parser.add_argument(
        "--ask-by", type=Asking, choices=list(Asking), default=Asking.LIMITS,
        help="how the new pods ask; plugin needs --fill 0 (default: limits)",
    )  # fmt: skip
    arguments = parser.parse_args()
    asking = arguments.ask_by
    if asking is Asking.PLUGIN and arguments.fill:
        parser.error("kube-scheduler's plugin does not know slices that pods hold by grants: add --fill 0")
    try:
        binaries = programs.kubernetes()
        with running(default_cache() / "scheduler-cost", binaries, (HELD, NEW), asking=asking) as plane:
            make_nodes(plane.api, arguments.nodes)
            if asking is Asking.PLUGIN:
                show_devices(plane.api, arguments.nodes)
            _hold(plane, arguments.nodes, arguments.fill)
            _measure(plane, arguments)
    except (programs.MissingError, ApiError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _hold(plane: ScheduledCluster, nodes: int, fill: float) -> None:
    """Create pods that are bound already, with the grants of a cluster that is filled to this share."""
    grants = ClusterModel(nodes, CARDS, fill, seconds=1).grants()

    def create(number: int) -> None:
        grant = grants[number]
        units = sum(each.mem_mib for each in grant.slices()) * hygon.UNITS // hygon.MIB
        body = pod_body(f"held-{number}", units, nodeName=grant.node)
        body["metadata"]["annotations"] = {annotations.GRANT: grant.encode()}
        plane.api.create(PODS, body, HELD)

    all_at_once(create, range(len(grants)))
    print(f"{nodes} nodes with {CARDS} cards each, {len(grants)} slices held", flush=True)


def _measure(plane: ScheduledCluster, arguments: argparse.Namespace) -> None:
    rng = random.Random(1)
    # One pod first: kube-scheduler and the allocator have then seen all nodes and pods.
    _place(plane, ["first"], rng)
    with ThreadPoolExecutor(1) as pool:
        profile: Future[bytes] | None = None
        if arguments.flame:
            profile = pool.submit(_profile, plane, seconds=20)
        before, begin = plane.cpu(), time.monotonic()
        _place(plane, [f"new-{number}" for number in range(arguments.pods)], rng)
        took, after = time.monotonic() - begin, plane.cpu()
        print(f"{arguments.pods / took:.0f} pods a second; CPU of a placed pod:")
        for name in before:
            print(f"  {name:<26}{1000 * (after[name] - before[name]) / arguments.pods:6.2f} ms")
        if profile is not None:
            found = go_profile.flame(go_profile.stacks(profile.result()))
            title = f"CPU of kube-scheduler while it places pods on {arguments.nodes} nodes; blue: its calls to vgpu"
            arguments.flame.write_text(go_profile.picture(found, title, EXTENDER), encoding="utf-8")
            print(
                f"kube-scheduler in its calls to the allocator: {100 * go_profile.share(found, EXTENDER):.0f} %"
            )


def _place(plane: ScheduledCluster, names: list[str], rng: random.Random) -> None:
    """Create pods, and wait until all are bound."""
    asked = {name: rng.randint(1, MOST_MEM) for name in names}

    def create(name: str) -> None:
        if plane.asking is Asking.LIMITS:
            body = pod_body(name, asked[name])
        else:
            body = claiming_pod(plane.api, name, NEW, asked[name])
        plane.api.create(PODS, body, NEW)

    all_at_once(create, names)
    unbound = Where(NEW, fields="spec.nodeName=")
    bare.until("not all pods are bound", SETTLE_SECONDS, lambda: not plane.api.list(PODS, unbound).items)


def _profile(plane: ScheduledCluster, seconds: int) -> bytes:
    """kube-scheduler's CPU profile of some seconds."""
    status, profile = plane.scheduler.request("GET", f"/debug/pprof/profile?seconds={seconds}", {}, None)
    if status != 200:
        raise SystemExit(f"kube-scheduler gives no profile: {status}")
    return bytes(profile)


if __name__ == "__main__":
    sys.exit(main())
