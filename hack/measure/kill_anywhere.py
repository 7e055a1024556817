"""Trial: kill -9 of either service at random moments under load, and leaders that change with Bindings in flight.

    hack/kill-anywhere --seconds 120

Pods come and go on two nodes while the node agents, the cluster service's replicas and the leadership are hit at
random. Killed processes are started again after a moment, as a DaemonSet and a Deployment would; nobody else helps. At
the end the load stops and everything must be right: no grant lost or doubled, no file leaked, both replicas agree. The
only pods that may have failed are those that the kubelet admitted while an agent was down; they are counted. With
--claims, half of the pods ask by ResourceClaims: none of these may fail, and their claims must agree with their grants.
"""

import argparse
import glob
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from device_plugin.core.contract.grants import Grant
from device_plugin.kube.api import Ref
from device_plugin.kube.leases import LEASES
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.cluster import EmbeddedCluster, Options, ReplicaPod
from hack.embedded.person import PATIENCE_SECONDS, NotInTimeError, Object, Person, phase, read
from hack.measure.claim_pods import by_claims, claim_faults
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FLAGS, random_pod
from hack.measure.witness import Witness
from vgpu_runtime import sim

CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 8}\n"
NODES = ("n0", "n1")
MOST_PODS = 60
LEASE_SECONDS = 15.0
ADMITTED_WITHOUT_AGENT = "UnexpectedAdmissionError"


class PodLoad(threading.Thread):
    """Creates and deletes random pods until it is stopped. With `claims`, half of them ask by ResourceClaims."""

    def __init__(self, person: Person, seed: int, *, claims: bool = False) -> None:
        super().__init__(name="load")
        self._person = person
        self._rng = random.Random(seed)
        self._claims = claims
        self.ended = threading.Event()
        self.created = self.claiming = 0
        self.failed: Counter[str] = Counter()

    def run(self) -> None:
        """Create or delete a pod about every 50 ms until the load is ended."""
        while not self.ended.wait(self._rng.uniform(0.0, 0.1)):
            pods = self._person.pods()
            for pod in pods:
                # A pod that is being deleted may end as Failed, because its containers were killed.
                if phase(pod) == "Failed" and "deletionTimestamp" not in pod["metadata"]:
                    kind = "pod with claims: " if pod["spec"].get("resourceClaims") else ""
                    self.failed[kind + str(pod["status"].get("reason"))] += 1
                    self._person.remove(pod["metadata"]["name"])
            if len(pods) < MOST_PODS and self._rng.random() < 0.7:
                pod = random_pod(self._rng, f"p{self.created}")
                # A claim of an init container is not served, and so not of a sidecar.
                if self._claims and self._rng.random() < 0.5 and "initContainers" not in pod["spec"]:
                    pod = by_claims(self._person, pod)
                    self.claiming += 1
                self._person.create(pod)
                self.created += 1
            elif pods:
                # One pod in five is deleted by force: its object is removed at once, its containers end later.
                grace = 0 if self._rng.random() < 0.2 else None
                self._person.remove(self._rng.choice(pods)["metadata"]["name"], grace)


class ServiceKiller:
    """Kills one service at a time, or its leadership, and restores it."""

    def __init__(self, cluster: EmbeddedCluster, person: Person, rng: random.Random) -> None:
        self._cluster = cluster
        self._person = person
        self._rng = rng
        self.hits: Counter[str] = Counter()

    def kill_one(self) -> None:
        """Kill a random service and start it again, or change the leader."""
        kind = self._rng.choice(("agent", "agent", "cluster service", "leader change"))
        self.hits[kind] += 1
        if kind == "leader change":
            self._change_leader()
            return
        services = (
            list(self._cluster.agents.values())
            if kind == "agent"
            else [replica.service for replica in self._cluster.replicas]
        )
        service = self._rng.choice(services)
        service.kill()
        time.sleep(self._rng.uniform(0.0, 0.5))
        service.start()
        service.wait()

    def _change_leader(self) -> None:
        """Stop the scheduler that holds the Lease, or pause it until the other has the Lease; then start it again."""
        holder = self._person.api.get(LEASES, Ref("vgpu-scheduler", "vgpu-system")).holder
        for replica in self._cluster.replicas:
            if holder.startswith(f"{replica.name}_"):
                if self._rng.random() < 0.7:
                    replica.scheduler.stop()
                    time.sleep(self._rng.uniform(0.1, 2.0))
                    replica.scheduler.start()
                else:
                    replica.scheduler.pause()
                    time.sleep(LEASE_SECONDS + self._rng.uniform(0.0, 5.0))
                    replica.scheduler.resume()


def faults(cluster: EmbeddedCluster, person: Person, witness: Witness) -> list[str]:
    """Texts about broken invariants, to be checked after the load has stopped."""
    pods = person.pods()
    live = {pod["metadata"]["uid"] for pod in pods}
    cards = [card for cards in cluster.cards.values() for card in cards]
    found = witness.wrong + witness.overlaps(live, cards) + _grants(pods) + [*claim_faults(person, pods)]
    for node in NODES:
        known = {path.parent.name for path in _slices(cluster, node)}
        found += [f"node {node}: files of pod {uid} are left" for uid in sorted(known - live)]
        devices = sum(map(_devices, cluster.kubelets[node].cdi_dir.glob("vgpu-*.json")))
        names = sum(len(_asked(pod)) for pod in pods if pod["spec"].get("nodeName") == node)
        if devices != names:
            found.append(f"node {node}: {devices} CDI devices for {names} resources and claims of containers")
    ledgers = {replica.name: _ledger(replica) for replica in cluster.replicas}
    found += [
        f"{name} holds {len(ledger)} grants for {len(pods)} pods"
        for name, ledger in ledgers.items()
        if set(ledger) != live
    ]
    first, *others = ledgers.values()
    if any(ledger != first for ledger in others):
        found.append("the replicas' ledgers differ")
    return found


def _slices(cluster: EmbeddedCluster, node: str) -> list[Path]:
    """The folders in which the node's agent keeps files of containers."""
    # Path.glob of Python 3.11 fails if a folder is removed meanwhile.
    return [Path(path) for path in glob.glob(f"{cluster.state(node)}/slices/*/*")]  # noqa: PTH207


def _grants(pods: Sequence[Object]) -> list[str]:
    found = []
    masks: Counter[tuple[str, int]] = Counter()
    for pod in pods:
        text = pod["metadata"].get("annotations", {}).get("vgpu.io/grant")
        if text is None:
            found.append(f"pod {pod['metadata']['name']} runs without a grant")
        else:
            masks.update((s.card, core) for s in Grant.decode(text).slices() for core in s.cores)
    return found + [
        f"core group {core} of {card} is granted {n} times" for (card, core), n in masks.items() if n > 1
    ]


def _devices(spec: Path) -> int:
    try:
        return len(json.loads(spec.read_text())["devices"])
    except FileNotFoundError:  # withdrawn just now
        return 0


def _asked(pod: Object) -> list[str]:
    containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    asked = [container["resources"] for container in containers]
    return [
        *(name for resources in asked for name in resources.get("limits") or ()),
        *(use["name"] for resources in asked for use in resources.get("claims") or ()),
    ]


def _ledger(replica: ReplicaPod) -> dict[str, list[tuple[object, ...]]]:
    """The slices of each pod in /explain of a replica, by the pod's UID."""
    address = replica.service.addresses["extender"]
    ledger: dict[str, list[tuple[object, ...]]] = {}
    for node in json.loads(read(f"http://{address}", "/explain", "application/json"))["nodes"]:
        for card in node["cards"]:
            for held in card["slices"]:
                ledger.setdefault(held["uid"], []).append((card["uuid"], held["memMiB"], held["cores"]))
    return {uid: sorted(slices, key=repr) for uid, slices in ledger.items()}


def run(seed: int, seconds: float, *, claims: bool = False) -> bool:
    """Run load and kills for `seconds`, and then check the invariants; true if all hold."""
    rng, witness = random.Random(seed), Witness()
    cards = {name: sim.parse(CARDS, machine=number) for number, name in enumerate(NODES)}
    options = Options(replicas=2, seed=seed, on_start=witness, flags=FLAGS, claims=claims)
    with one_machine(cards, options, ADMIN) as (cluster, person):
        load, killer = PodLoad(person, seed, claims=claims), ServiceKiller(cluster, person, rng)
        load.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end and load.is_alive():
            time.sleep(rng.uniform(0.2, 1.5))
            killer.kill_one()
        load.ended.set()
        load.join()
        left = _reckon(cluster, person, witness)
        _empty(cluster, person)
    killed = ", ".join(f"{kind} {count}" for kind, count in sorted(killer.hits.items()))
    created = f"{load.created} pods, {load.claiming} of them with claims"
    print(f"seed {seed}: {created}, {witness.started} containers; hits: {killed}")
    allowed = load.failed.pop(ADMITTED_WITHOUT_AGENT, 0)
    print(
        f"failed because the kubelet admitted them while an agent was down: {allowed}; otherwise: {dict(load.failed)}"
    )
    for text in left[:20]:
        print(text)
    print(f"faults {len(left)}, wrongly failed {load.failed.total()}")
    return not left and not load.failed


def _reckon(cluster: EmbeddedCluster, person: Person, witness: Witness) -> list[str]:
    """Wait until the system has settled; returns the faults that remain."""

    def settled() -> bool:
        pods = person.pods()
        for pod in pods:
            if phase(pod) == "Failed":
                person.remove(pod["metadata"]["name"])
        quiet = all(phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods)
        return quiet and not faults(cluster, person, witness)

    try:
        person.until("the system to be right again", settled, PATIENCE_SECONDS)
    except NotInTimeError:
        return faults(cluster, person, witness) or ["pods hang"]
    return []


def _empty(cluster: EmbeddedCluster, person: Person) -> None:
    """Delete all pods, and wait until the nodes have no more files of them."""
    for pod in person.pods():
        person.remove(pod["metadata"]["name"])

    def gone() -> bool:
        left = [path for node in NODES for path in _slices(cluster, node)]
        specs = [path for node in NODES for path in cluster.kubelets[node].cdi_dir.glob("vgpu-*")]
        return not (person.pods() or left or specs)

    person.until("every file to be gone", gone, PATIENCE_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run hack/kill-anywhere with these arguments; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/kill-anywhere", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to hit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--claims", action="store_true", help="half of the pods ask by ResourceClaims")
    args = parser.parse_args(argv)
    if not args.seconds > 0:
        parser.error("write --seconds of more than 0")
    return 0 if run(args.seed, args.seconds, claims=args.claims) else 1


if __name__ == "__main__":
    sys.exit(main())
