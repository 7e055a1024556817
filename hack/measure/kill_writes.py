"""Trial: kill -9 of the cluster service after each of the three writes by which a pod with a claim is bound.

    hack/kill-writes --rounds 10

In a round, the service is killed three times, each time before it gets the answer to another write: the claim's
finalizer, its status, the Binding. It is started again at once, and the pod must run with the card that its grant and
its claim name. At the end no claim and no slice is left. A pod with limits, of which the only write is the Binding, is
killed in the same way, to compare the times.

A new claim has the finalizer from a policy. So that it is written, the claim of that pod has lost it, as claims do when
their pod ends.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

from device_plugin.kube.api import PODS as POD_KIND
from device_plugin.kube.api import Ref
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.apiserver.resources import CLAIMS, PODS, RequestTarget
from hack.embedded.claims.uses import CLAIMS as CLAIM_KIND
from hack.embedded.claims.uses import TEMPLATES
from hack.embedded.cluster import ALLOCATOR_USER, EmbeddedCluster, Options
from hack.embedded.person import NAMESPACE, PATIENCE_SECONDS, Object, Person, phase
from hack.measure.claim_pods import by_claims, claim_faults
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from hack.measure.witness import Witness
from vgpu_runtime import sim

CARD = "version: v1\ncards:\n  - {preset: amd-60cu-16gib}\n"
LIMITS = {f"{FAMILY}-mem": "16", f"{FAMILY}-cores": "60"}
# By name: the resource and subresource of each write.
WRITES = {"finalizer": (CLAIMS, ""), "status": (CLAIMS, "status"), "Binding": (PODS, "binding")}


class WriteKiller:
    """Kills the cluster service once, after its next write to `resource` and `subresource`."""

    def __init__(self, cluster: EmbeddedCluster, name: str) -> None:
        (replica,) = cluster.replicas
        self._service = replica.service
        self._api = cluster.api
        self._wanted = (ALLOCATOR_USER, *WRITES[name])
        self._api.written = self._see

    def _see(self, user: str, target: RequestTarget) -> None:
        if (user, target.resource, target.subresource) == self._wanted:
            self._api.written = lambda *_: None
            self._service.signal(signal.SIGKILL)

    def has_killed(self) -> bool:
        """True once the service has ended."""
        return not self._service.running

    def restore(self) -> None:
        """Start the service again, and wait until it serves."""
        self._service.kill()
        self._service.start()
        self._service.wait()


def _pod(name: str) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": dict(LIMITS)}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }  # fmt: skip


def _claim_pod(person: Person, name: str, write: str) -> Object:
    """A pod with a ResourceClaim for which the service writes `write`."""
    made = by_claims(person, _pod(name))
    if write == "finalizer":
        (entry,) = made["spec"]["resourceClaims"]
        template = person.api.get(TEMPLATES, Ref(entry.pop("resourceClaimTemplateName"), NAMESPACE))
        person.api.create(
            CLAIM_KIND, {"metadata": {"name": name}, "spec": template["spec"]["spec"]}, NAMESPACE
        )
        person.api.patch(CLAIM_KIND, Ref(name, NAMESPACE), {"metadata": {"finalizers": None}})
        entry["resourceClaimName"] = name
    return made


def _killed(cluster: EmbeddedCluster, person: Person, write: str, pod: Object) -> tuple[float, list[str]]:
    """Kill the service after this write for the pod; returns the seconds from its new start until the pod runs.

    Also returns texts about claims that differ from grants.
    """
    name = pod["metadata"]["name"]
    killer = WriteKiller(cluster, write)
    person.create(pod)
    person.until(f"the write: {write}", killer.has_killed, PATIENCE_SECONDS)
    begin = time.monotonic()
    killer.restore()
    ref = Ref(name, NAMESPACE)

    def runs() -> bool:
        return phase(person.api.get(POD_KIND.json, ref)) == "Running"

    person.until(f"{name} to run", runs, PATIENCE_SECONDS)
    seconds = time.monotonic() - begin
    found = list(claim_faults(person, person.pods()))
    person.delete(name)
    for entry in pod["spec"].get("resourceClaims", ()):
        if named := entry.get("resourceClaimName"):
            person.api.delete(CLAIM_KIND, Ref(named, NAMESPACE))
    person.until("no pod and no claim", _nothing(person), PATIENCE_SECONDS)
    return seconds, found


def _nothing(person: Person) -> Callable[[], bool]:
    return lambda: not person.pods() and not person.api.list(CLAIM_KIND).items


def run(rounds: int) -> bool:
    """Run the rounds, and print the times and faults; true if there was no fault."""
    witness, faults = Witness(), []
    times: dict[str, list[float]] = {}
    options = Options(on_start=witness, flags=FLAGS, claims=True)
    with one_machine({"n": sim.parse(CARD)}, options, ADMIN) as (cluster, person):
        for number in range(rounds):
            for write in WRITES:
                pod = _claim_pod(person, f"claim-{write.lower()}-{number}", write)
                seconds, found = _killed(cluster, person, write, pod)
                times.setdefault(write, []).append(seconds)
                faults += found
            seconds, _ = _killed(cluster, person, "Binding", _pod(f"limits-{number}"))
            times.setdefault("Binding of a pod with limits", []).append(seconds)
    for write, all_seconds in times.items():
        print(f"after {write}: runs after {median(all_seconds):.1f} s, at most {max(all_seconds):.1f} s")
    faults += witness.wrong
    print(*faults[:20], sep="\n", end="\n" if faults else "")
    print(f"kills {sum(map(len, times.values()))}, faults {len(faults)}")
    return not faults


def main(argv: Sequence[str] | None = None) -> int:
    """Run hack/kill-writes with these arguments; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/kill-writes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often each write is hit")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("write --rounds of at least 1")
    return 0 if run(args.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
