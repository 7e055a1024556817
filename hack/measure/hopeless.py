"""hack/hopeless: pods placed in a second while thousands fit nowhere, with a real API server and kube-scheduler.

Each round has two parts, with the same kube-scheduler. In the first part, thousands of pods of 20 namespaces wait
because no node fits their nodeSelector: kube-scheduler never asks the allocator about them. In the second part, the
same number of pods waits because the allocator refuses them, and each pod that is bound makes kube-scheduler try all of
them again. In both parts a few good pods always wait for their binding: when one is bound, it is deleted, and the next
is created. Attempts are kube-scheduler's, decisions are the allocator's answers to /filter.

During this load, one pod after another (a probe) waits for a card that is reserved for another pod, which is not bound
because its volume is missing; then that reservation ends. The program prints the time from there until the probe is
bound, and from the touch, if the probe was touched. The last line is the median of the rounds' ratios, second part to
first: `ratio 0.93`.

Nodes are objects with an inventory; nothing runs on them, and no root is needed. The scheduler's configuration is the
one in manifests/; --backoff sets both of its backoffs. The logs stay in ~/.cache/vgpu/hopeless until the next run.
"""

import argparse
import itertools
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, Kind, Ref, Where
from device_plugin.kube.errors import ApiError, GoneError
from hack.bench.extender.cluster_model import ClusterModel
from hack.measure.scheduled_cluster import (
    BACKOFFS,
    CARDS,
    SCHEDULER,
    WRITERS,
    ScheduledCluster,
    all_at_once,
    make_node,
    make_nodes,
    pod_body,
    running,
)
from hack.testbed import bare, programs
from vgpu_runtime.sim.hip import default_cache

NAMESPACES = 20
# Seconds to wait until thousands of pods are refused or gone; and until a pod with room is bound.
SETTLE_SECONDS, PROBE_SECONDS = 1800.0, 900.0
CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", dict)
STORAGE = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", dict)
TENANTS = [f"tenant-{number:02}" for number in range(NAMESPACES)]
GOOD = "good"
# The namespace of the probes, which are touched; their node; and the model of its only card, which no other node has.
# VOLUMES is a storage class whose volumes never become ready.
PROBES, PROBE_NODE, PROBE_MODEL = "probes", "probe-node", "Probe"
VOLUMES = "no-volumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
Item = TypeVar("Item")


def main() -> int:
    """Start a control plane, run the rounds, and end it; returns 0 if the rounds could be run."""
    parser = argparse.ArgumentParser(
        prog="hack/hopeless", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=4000, help="pods that wait (default: 4000)")
    parser.add_argument("--nodes", type=int, default=100, help=f"of {CARDS} cards each (default: 100)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of two parts (default: 3)")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured in each part (default: 30)")
    parser.add_argument("--good", type=int, default=32, help="good pods that exist at a time (default: 32)")
    parser.add_argument("--backoff", type=int, help=f"{' and '.join(BACKOFFS)} (default: as in manifests/)")
    arguments = parser.parse_args()
    try:
        binaries = programs.kubernetes()
        folder, namespaces = default_cache() / "hopeless", (GOOD, PROBES, *TENANTS)
        with running(folder, binaries, namespaces, arguments.backoff) as plane:
            make_nodes(plane.api, arguments.nodes)
            _make_probe_node(plane.api)
            plane.api.create(STORAGE, _storage_class())
            _measure(plane, arguments)
    except (programs.MissingError, ApiError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def _changes(api: KubeClient, kind: Kind[Item], where: Where) -> Iterator[Iterator[Item]]:
    """Yield an iterator over changed objects of a selection. It raises queue.Empty after PROBE_SECONDS without one."""
    found: SimpleQueue[Item] = SimpleQueue()
    listed, stop = threading.Event(), threading.Event()
    watch = ListWatch(api, kind, where)

    def follow() -> None:
        watch.run(lambda _: listed.set(), lambda _, item: found.put(item), stop)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    listed.wait()
    try:
        yield (found.get(timeout=PROBE_SECONDS) for _ in itertools.count())
    finally:
        stop.set()
        watch.interrupt()
        thread.join()


def _make_probe_node(api: KubeClient) -> None:
    card = ClusterModel(1, CARDS, 0.0, seconds=1).inventory(PROBE_NODE).cards[0]
    make_node(api, PROBE_NODE, Inventory((msgspec.structs.replace(card, model=PROBE_MODEL),)))


def _measure(plane: ScheduledCluster, arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.pods} pods of {NAMESPACES} namespaces wait, {arguments.nodes} nodes, {plane.backoff}",
        flush=True,
    )
    ratios = []
    for number in range(1, arguments.rounds + 1):
        told = []
        for kind, selector in (("nodeSelector", {"no": "node"}), ("allocator", None)):
            _fill(plane.api, arguments.pods, selector)
            told.append(_part(plane, arguments))
            _empty(plane.api)
            print(f"round {number}: beside pods that the {kind} refuses {told[-1]}", flush=True)
        ratios.append(told[1].good / told[0].good)
    print(f"ratio {statistics.median(ratios):.2f}")


def _fill(api: KubeClient, count: int, selector: object) -> None:
    """Create the waiting pods, and wait until kube-scheduler has refused each of them."""
    more = {"nodeSelector": selector} if selector else {}

    def create(number: int) -> None:
        # More units than a card has, but fewer than a node has.
        api.create(PODS, pod_body(f"waits-{number}", 17 + number % 100, **more), TENANTS[number % NAMESPACES])

    all_at_once(create, range(count))
    waiting = Where(fields=f"spec.schedulerName={SCHEDULER}")
    bare.until(
        "not all pods are refused",
        SETTLE_SECONDS,
        lambda: sum(pod.refused != 0 for pod in api.list(PODS, waiting).items) == count,
    )


def _empty(api: KubeClient) -> None:
    """Delete all pods, and wait until they are gone."""
    all_at_once(lambda pod: api.delete(PODS, pod, grace_seconds=0), api.list(PODS).items)
    bare.until("not all pods are gone", SETTLE_SECONDS, lambda: not api.list(PODS).items)


@dataclass(frozen=True)
class Probe:
    """Two times in seconds: from when a pod had room until it was bound, and from its touch until it was bound.

    The second is None for a pod that was not touched.
    """

    room: float
    touch: float | None

    def __str__(self) -> str:
        """The figures as text."""
        touch = "" if self.touch is None else f" ({self.touch:.2f} after its touch)"
        return f"{self.room:.2f}{touch}"


@dataclass(frozen=True)
class PartFigures:
    """The figures of one part: good pods bound per second, attempts and decisions for each, and the probes."""

    good: float
    attempts: float
    decisions: float
    probes: Sequence[Probe]

    def __str__(self) -> str:
        """The figures as one line of text."""
        return (
            f"{self.good:.1f} good pods/s, {self.attempts:.1f} attempts of kube-scheduler and {self.decisions:.1f}"
            f" decisions of /filter for each; seconds from room to binding: {', '.join(map(str, self.probes))}"
        )


def _part(plane: ScheduledCluster, arguments: argparse.Namespace) -> PartFigures:
    bound: dict[str, float] = {}
    stop = threading.Event()
    numbers = itertools.count(time.monotonic_ns())

    def create() -> None:
        plane.api.create(PODS, pod_body(f"good-{next(numbers)}", 1), GOOD)

    def replace_pod(pod: Pod) -> None:
        plane.api.delete(PODS, pod, grace_seconds=0)
        if not stop.is_set():
            create()

    with ThreadPoolExecutor(WRITERS + 1) as pool, _changes(plane.api, PODS, Where(GOOD)) as pods:
        for _ in range(arguments.good):
            pool.submit(create)
        begin = time.monotonic() + arguments.seconds / 3
        end = begin + arguments.seconds
        probes = pool.submit(_probes, plane.api, end)
        before = None
        for pod in pods:
            now = time.monotonic()
            if not pod.node or pod.uid in bound:
                continue
            if before is None and now >= begin:
                before = plane.tries()
            bound[pod.uid] = now
            pool.submit(replace_pod, pod)
            if now >= end and probes.done():
                break
        stop.set()
    count = sum(each >= begin for each in bound.values())
    attempts, decisions = (now - then for now, then in zip(plane.tries(), before or (0, 0), strict=True))
    good = count / (now - begin)
    return PartFigures(good, attempts / max(1, count), decisions / max(1, count), probes.result())


def _probes(api: KubeClient, end: float) -> list[Probe]:
    """Run probes one after another; the last begins before `end`. Returns their figures."""
    found = []
    while time.monotonic() < end:
        name = f"probe-{time.monotonic_ns()}"
        api.create(CLAIMS, _claim(name), PROBES)
        try:
            found.append(_probe(api, name))
        except Empty:
            print(f"{name} was not bound in {PROBE_SECONDS:.0f} s", file=sys.stderr)
        finally:
            for kind, each in ((PODS, name), (PODS, f"{name}-holder"), (CLAIMS, name)):
                with suppress(GoneError):
                    api.delete(kind, Ref(each, PROBES), grace_seconds=0)
    return found


def _probe(api: KubeClient, name: str) -> Probe:
    # kube-scheduler counts only units, and by units both pods fit.
    holder, waiting = pod_body(f"{name}-holder"), pod_body(name, 16)
    for body in (holder, waiting):
        body["metadata"]["annotations"] = {annotations.CARD_MODEL: PROBE_MODEL}
    holder["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    this = Where(PROBES, fields=f"metadata.name={name}")
    with _changes(api, CLAIMS, this) as claims:
        api.create(PODS, holder, PROBES)
        # kube-scheduler assumes that the holder is on its node, but waits for the volume before it binds the holder.
        next(claim for claim in claims if SELECTED_NODE in claim["metadata"].get("annotations", {}))
    with _changes(api, PODS, this) as pods:
        api.create(PODS, waiting, PROBES)
        next(pod for pod in pods if pod.refused)
        # The holder's request is changed, so its reservation ends; no event about this wakes a refused pod.
        changed = {"metadata": {"annotations": {annotations.CARD_MODEL: "none"}}}
        room, touched = time.monotonic(), None
        api.patch(PODS, Ref(f"{name}-holder", PROBES), changed)
        for pod in pods:
            now = time.monotonic()
            if touched is None and pod.annotation(annotations.TOUCHED):
                touched = now
            if pod.node:
                break
    return Probe(now - room, now - touched if touched is not None else None)


def _storage_class() -> dict[str, Any]:
    return {
        "metadata": {"name": VOLUMES},
        "provisioner": "example.com/nobody",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _claim(name: str) -> dict[str, Any]:
    amount = {"requests": {"storage": "1Mi"}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": VOLUMES, "resources": amount},
    }


if __name__ == "__main__":
    sys.exit(main())
