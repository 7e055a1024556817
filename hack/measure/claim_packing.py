"""hack/claim-packing: replay a trace by limits and by ResourceClaims, and count the pods that get different slices.

    hack/claim-packing --nodes nodes.csv --pods pods.csv

Each pod of the trace asks for its share of a card's memory and of its 100 core groups, once in a container's limits and
once in a ResourceClaim. Both are read from their JSON as the allocator reads them, and placed in the same order on two
clusters of their own, by the learning policy. A pod for whole cards asks for all memory and all core groups of each.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from device_plugin.adapters.kube.pods import as_pod
from device_plugin.adapters.kube.structs import RawPod
from device_plugin.core.claims import ClaimRequests
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.claims import CORES, MEMORY, Claim, device_class, read_claim
from device_plugin.core.contract.grants import Grant
from device_plugin.core.requests import pod_request
from hack.bench import runs
from hack.bench.cluster import BenchCluster
from hack.bench.replay import arrivals
from hack.bench.report import BenchError
from hack.bench.workload import FAMILY, MILLI, BenchPod, BenchWorkload, read
from hack.embedded.claims.uses import claim_spec

GROUPS = 100
POLICY = "fragmentation"
CLAIM = "slice"
Json = dict[str, Any]


def main() -> int:
    """Replay the trace with each seed; returns 0 if all pods got the same slices by both ways."""
    parser = argparse.ArgumentParser(
        prog="hack/claim-packing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, required=True, metavar="FILE", help="CSV of the trace's nodes")
    parser.add_argument("--pods", type=Path, required=True, metavar="FILE", help="CSV of the trace's pods")
    parser.add_argument("--seeds", default="42", metavar="A-B", help="orders of arrival (default: 42)")
    args = parser.parse_args()
    different = 0
    try:
        workload = read(args.nodes, args.pods)
        for seed in runs.numbered(args.seeds):
            pods, placed, differ = compare(workload, seed)
            different += differ
            print(
                f"seed {seed}: {pods} pods, {placed} placed by limits, {differ} different by claims",
                flush=True,
            )
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if different else 0


def compare(workload: BenchWorkload, seed: int) -> tuple[int, int, int]:
    """Three numbers: all pods, pods placed by limits, and pods for which ResourceClaims give another decision."""
    jobs = [job for job in workload.jobs if job.request.containers]
    nodes = [replace(node, inventory=_with_groups(node.inventory)) for node in workload.nodes]
    roads = [
        (BenchCluster(BenchWorkload(nodes, [asked(job) for job in jobs]), POLICY, seed), asked)
        for asked in (by_limits, by_claim)
    ]
    pods = placed = different = 0
    for job in arrivals(BenchWorkload(nodes, jobs), seed):
        first, second = (_placed(cluster, asked(job)) for cluster, asked in roads)
        pods += 1
        placed += first is not None
        different += first != second
    return pods, placed, different


def _with_groups(inventory: Inventory) -> Inventory:
    cards = [structs.replace(card, compute_units=GROUPS, core_groups=GROUPS) for card in inventory.cards]
    return replace(inventory, cards=tuple(cards), claims=True)


def _placed(cluster: BenchCluster, job: BenchPod) -> Grant | None:
    """The pod's grant without the name of its ResourceClaim; None if the pod does not fit."""
    cluster.learn(job)
    grant = cluster.place(job)
    return None if grant is None else structs.replace(grant, claims={})


def by_limits(job: BenchPod) -> BenchPod:
    """The pod with the request of a Kubernetes pod that asks in its limits."""
    memory, cores, count = _amounts(job)
    limits = {f"{FAMILY}-mem": str(memory * count), f"{FAMILY}-cores": str(cores * count)}
    return _asking(job, {"resources": {"limits": limits}}, {annotations.SLICES: str(count)})


def by_claim(job: BenchPod) -> BenchPod:
    """The pod with the request of a Kubernetes pod that asks by a ResourceClaim."""
    memory, cores, count = _amounts(job)
    claim = read_claim(
        {
            "metadata": {"namespace": "bench", "name": CLAIM, "uid": CLAIM, "resourceVersion": "1"},
            "spec": claim_spec(device_class(FAMILY), {MEMORY: f"{memory}Mi", CORES: str(cores)}, count),
            "status": {},
        }
    )
    used = {"name": "card", "resourceClaimName": CLAIM}
    return _asking(job, {"resources": {"claims": [{"name": "card"}]}}, {}, claim, resourceClaims=[used])


def _amounts(job: BenchPod) -> tuple[int, int, int]:
    """The memory, in thousandths of a card, and the core groups of each slice; and the number of slices."""
    ((_, asked),) = job.request.containers
    memory = MILLI if asked.mem is None else asked.mem
    return memory, ceil(memory * GROUPS / MILLI), asked.cards


def _asking(
    job: BenchPod, container: Json, written: Mapping[str, str], claim: Claim | None = None, **spec: object
) -> BenchPod:
    body = {
        "metadata": {"namespace": "bench", "name": job.name, "uid": job.name, "annotations": written},
        "spec": {"containers": [{"name": "main", **container}], **spec},
    }
    pod = as_pod(msgspec.json.decode(msgspec.json.encode(body), type=RawPod))
    source = ClaimRequests([FAMILY], lambda _namespace, _name: claim, unit_mib=1)
    request = pod_request(pod, [FAMILY], source)
    if request is None:
        raise BenchError(f"pod {job.name} asks for no card")
    return replace(job, request=replace(request, models=job.request.models, host=job.request.host))


if __name__ == "__main__":
    sys.exit(main())
