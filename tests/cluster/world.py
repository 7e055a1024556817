"""A cluster service without any outside: an API server of dictionaries, a clock that tests move."""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from msgspec import structs

from device_plugin.adapters import extender
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.decisions import Decisions
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.service import Shared
from device_plugin.cluster.app import Extender
from device_plugin.cluster.bind import Binder
from device_plugin.cluster.claim_touch import ClaimTouch
from device_plugin.cluster.claim_writes import ClaimWrites
from device_plugin.cluster.cluster_gauges import ClusterGauges
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.deletions import Deletions
from device_plugin.cluster.filter import Filter, Verdict
from device_plugin.cluster.housekeeping import Housekeeping
from device_plugin.cluster.idle_evictions import IdleEvictions
from device_plugin.cluster.leader import Leader
from device_plugin.cluster.leadership import Leadership
from device_plugin.cluster.ports import BindCall, Calls
from device_plugin.cluster.preemption import Preemption
from device_plugin.cluster.stale_claims import StaleClaims
from device_plugin.cluster.touch import Touch
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.claims import Claim, read_claim
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import (
    EVERYWHERE,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    Kind,
    Listed,
    Metadata,
    Named,
    Object,
    Ref,
    Where,
)
from device_plugin.kube.errors import ConflictError, GoneError, RefusedError, UnknownError
from device_plugin.kube.leases import LEASES, Lease
from device_plugin.state.claims import ServedClaims
from device_plugin.state.view import ClusterView
from tests.builders.cards import inventory, preparing
from tests.builders.claims import claim, claim_pod
from tests.builders.pods import pod

RESERVATION_SECONDS = 60.0
LEASE = Ref("vgpu-scheduler", "vgpu-system")
# Seconds since 1970 when the clock shows 0: 1000 s before the pods of tests.builders are created.
BEGAN = datetime.fromisoformat("2026-11-21T07:00:00Z").timestamp() - 1000.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watcher(Protocol):
    """Who hears of pods."""

    def hear(self, pod: Pod) -> None:
        """It is so now."""

    def lose(self, pod: Pod) -> None:
        """It is gone."""

    def hear_job(self, job: Metadata) -> None:
        """A Job of a queue is so now."""

    def lose_job(self, job: Metadata) -> None:
        """The Job is gone."""

    def hear_claim(self, claim: Claim) -> None:
        """A ResourceClaim is so now."""

    def lose_claim(self, claim: Claim) -> None:
        """The ResourceClaim is gone."""


class FakeApi:
    """`watchers` hear each change at once. `on_bind` may raise, before or after it calls `land`.

    `on_claim` is called before each write of a claim, with its subresource, and `after_claim` after it; each may raise.
    """

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Pod] = {}
        self.by_node: dict[str, Node] = {}
        self.jobs: dict[str, Metadata] = {}
        self.claims: dict[tuple[str, str], dict[str, Any]] = {}
        self.on_claim: Callable[[str], None] = lambda _: None
        self.after_claim: Callable[[str], None] = lambda _: None
        self.deadline = float("inf")
        self.held: Lease | None = None
        self.written: list[tuple[str, str]] = []
        self.warnings: list[tuple[str, str]] = []
        # Names of pods that may not go, and of those that may not once they are to go in earnest.
        self.protected: set[str] = set()
        self.kept: set[str] = set()
        self.away = False
        self.reads = 0
        self.on_bind: Callable[[Pod, str, Mapping[str, str]], None] | None = None
        self.watchers: list[Watcher] = []
        self._time = self._version = 0

    def pods(self) -> Sequence[Pod]:
        self._reach()
        return list(self.by_name.values())

    def nodes(self) -> Sequence[Node]:
        self._reach()
        return list(self.by_node.values())

    def pod(self, namespace: str, name: str) -> Pod:
        self._reach()
        if (namespace, name) not in self.by_name:
            raise GoneError(f'pods "{name}" not found')
        return self.by_name[namespace, name]

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert where == EVERYWHERE
        return Listed({PODS: self.pods, NODES: self.nodes}[kind]())

    def get(self, kind: Kind[Any], of: Named) -> Any:
        if kind is PODS:
            return self.pod(of.namespace, of.name)
        if kind == RESOURCE_CLAIMS.json:
            self._reach()
            return copy.deepcopy(self._claim(of))
        assert (kind, of) == (LEASES, LEASE)
        self._reach()
        if self.held is None:
            raise GoneError("nobody has made it yet")
        return self.held

    def bind(self, pod: Named, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        assert isinstance(pod, Pod)
        self.written.append(("bind", pod.name))
        if self.on_bind is not None:
            self.on_bind(pod, node, annotations)
        else:
            self.land(pod, node, annotations, labels)

    def land(
        self, pod: Pod, node: str, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """The Binding happens."""
        found = self.by_name.get((pod.namespace, pod.name))
        if found is None:
            raise GoneError(f'pods "{pod.name}" not found')
        if found.uid != pod.uid or found.node:
            raise UnknownError("conflict")
        carried = {**(found.annotations or {}), **annotations}
        labelled = {**(found.labels or {}), **(labels or {})} or None
        self.put(structs.replace(found, node=node, annotations=carried, labels=labelled, bound=self.time()))

    def delete(self, kind: Kind[Any], of: Named, *, grace_seconds: int | None = None) -> None:
        assert (kind, grace_seconds) == (PODS, None)
        self.written.append(("delete", of.name))
        found = self.by_name.get((of.namespace, of.name))
        if found is None or found.uid != of.uid:
            raise GoneError("gone")
        self.end(found)

    def evict(self, pod: Named, *, dry: bool = False) -> None:
        """The pod is on its way out, and still there."""
        if pod.name in self.protected or (pod.name in self.kept and not dry):
            raise RefusedError("Cannot evict pod as it would violate the pod's disruption budget.")
        if dry:
            return
        self.written.append(("evict", pod.name))
        found = self.by_name.get((pod.namespace, pod.name))
        if found is None or found.uid != pod.uid:
            raise GoneError("gone")
        self.put(structs.replace(found, deleting=True))

    def patch(
        self, kind: Kind[Any], of: Named, change: Object, *, subresource: str = "", by_key: bool = False
    ) -> Any:
        if kind.plural == RESOURCE_CLAIMS.plural:
            made = self._patch_claim(of, change, subresource, by_key=by_key)
            return (
                read_claim(made) if kind == RESOURCE_CLAIMS else Metadata(of.name, version=version_of(made))
            )
        assert not by_key
        assert (kind, subresource, [*change["metadata"]["annotations"]]) == (
            PODS,
            "status",
            [annotations.TOUCHED],
        )
        found = self.pod(of.namespace, of.name)
        self.written.append(("touch", of.name))
        return found

    def create(self, kind: Kind[Any], body: Object, namespace: str = "") -> Any:
        raise AssertionError(f"nobody creates {kind.name} {body} in {namespace}")

    def replace(self, kind: Kind[Any], of: Named, body: Object) -> Any:
        raise AssertionError(f"nobody replaces {kind.name} {of.name} by {body}")

    def _patch_claim(self, of: Named, change: Object, subresource: str, *, by_key: bool) -> dict[str, Any]:
        """A patch of a claim's finalizers, or of its status, as prototypes on Kubernetes 1.36.3 have shown it."""
        self._reach()
        self.on_claim(subresource)
        old, new = self._claim(of), copy.deepcopy(dict(change))
        wanted = new["metadata"].get("resourceVersion", version_of(old))
        if wanted != version_of(old):
            raise ConflictError("the object has been modified")
        if of.uid not in ("", old["metadata"]["uid"]):
            raise RefusedError("metadata.uid: field is immutable")
        if subresource:
            assert (subresource, by_key) == ("status", False)
            made = {**old, "status": self._patched_status(old.get("status", {}), new["status"])}
        else:
            assert by_key, "another patch would replace the finalizers of others"
            held = old["metadata"].get("finalizers", [])
            added = [each for each in new["metadata"]["finalizers"] if each not in held]
            if not added:
                return copy.deepcopy(old)  # nothing is stored
            if "deletionTimestamp" in old["metadata"]:
                raise RefusedError("no new finalizers can be added if the object is being deleted")
            made = {**old, "metadata": {**old["metadata"], "finalizers": [*held, *added]}}
        self.written.append((f"claim {subresource}".rstrip(), of.name))
        found = self.put_claim(made)
        self.after_claim(subresource)
        return found

    @staticmethod
    def _patched_status(old: Object, change: Object) -> dict[str, Any]:
        merged = {key: value for key, value in {**old, **change}.items() if value is not None}
        was, now = (each.get("allocation") for each in (old, merged))
        if was and now and was != now:
            raise RefusedError("status.allocation: field is immutable")
        if not now and merged.get("reservedFor"):
            raise RefusedError("status.reservedFor: may not be specified when `allocated` is not set")
        return merged

    def until(self, deadline: float) -> "FakeApi":
        self.deadline = deadline
        return self

    def _claim(self, of: Named) -> dict[str, Any]:
        if (of.namespace, of.name) not in self.claims:
            raise GoneError(f'resourceclaims "{of.name}" not found')
        return self.claims[of.namespace, of.name]

    def put_claim(self, claim: Object) -> dict[str, Any]:
        """A ResourceClaim as it is from now on."""
        self._version += 1
        made = copy.deepcopy(
            {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(self._version)}}
        )
        read = read_claim(made)
        self.claims[read.key] = made
        for watcher in self.watchers:
            watcher.hear_claim(read)
        return copy.deepcopy(made)

    def remove_claim(self, name: str, namespace: str = "default") -> None:
        """The ResourceClaim is gone."""
        gone = read_claim(self.claims.pop((namespace, name)))
        for watcher in self.watchers:
            watcher.lose_claim(gone)

    def post_event(
        self, kind: Kind[Any], of: Named, reason: str, message: str, *, warning: bool = True
    ) -> None:
        assert (kind, warning) == (PODS, True)
        self.warnings.append((f"{of.name} {reason}", message))

    def put(self, pod: Pod) -> Pod:
        """A pod as it is from now on."""
        self.by_name[pod.namespace, pod.name] = pod
        for watcher in self.watchers:
            watcher.hear(pod)
        return pod

    def end(self, pod: Pod) -> None:
        """The pod has ended, as its kubelet says, and then its object is gone."""
        if pod.node and not pod.ended:
            self.put(structs.replace(pod, phase="Succeeded"))
        self.remove(pod)

    def put_job(self, job: Metadata) -> Metadata:
        """A Job with the queue label as it is from now on."""
        self.jobs[job.uid] = job
        for watcher in self.watchers:
            watcher.hear_job(job)
        return job

    def remove_job(self, uid: str) -> None:
        """The Job is gone."""
        job = self.jobs.pop(uid)
        for watcher in self.watchers:
            watcher.lose_job(job)

    def remove(self, pod: Pod) -> None:
        """The pod object is gone, and nobody has heard of an end."""
        del self.by_name[pod.namespace, pod.name]
        for watcher in self.watchers:
            watcher.lose(pod)

    def time(self) -> str:
        """A later time with each call, as Kubernetes writes it."""
        self._time += 1
        return f"2026-11-21T08:{self._time // 60:02}:{self._time % 60:02}Z"

    def _reach(self) -> None:
        self.reads += 1
        if self.away:
            raise UnknownError("no answer")


class Counted(Counts):
    """What the service counted, by its own metrics."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        *_, binds = self.readings()
        return {labels[0]: int(count) for labels, count in binds.samples}

    @property
    def placements(self) -> int:
        placements, *_ = self.readings()
        return int([count for _, count in placements.samples][-1])


class Memory:
    """What a replica keeps in memory: what it knows of the cluster, and what it decided."""

    def __init__(self, clock: Clock, name: str = "vgpu-0", served: ServedClaims | None = None) -> None:
        self.view = ClusterView(DEFAULT_PREFIXES, clock, wall=clock, served=served)
        self.allocator = Allocator(self.view, RESERVATION_SECONDS, clock)
        self.leader = Leader(name, clock)
        self.counts = Counted()
        self.shared = Shared(self.view, self.allocator, self.leader.why_not, clock)


class Replica(Memory):
    """The allocator of one replica, as `wiring.cluster` puts it together."""

    def __init__(
        self, api: FakeApi, clock: Clock, name: str = "vgpu-0", covered_pods: str = "report", *,
        claims: bool = False,
    ) -> None:  # fmt: skip
        self.api, self.clock, self.name = api, clock, name
        super().__init__(clock, name, ServedClaims("vgpu-scheduler") if claims else None)
        shared = self.shared

        def wall() -> float:
            return BEGAN + clock.now

        self.filter = Filter(shared, self.counts)
        claim_writes = ClaimWrites(shared, api, self.leader.fenced)
        self.binder = Binder(shared, api, self.leader.fenced, self.counts, claim_writes, wall)
        self.leadership = Leadership(shared, self.leader, api, LEASE)
        deletions = Deletions(shared, api, covered_too=covered_pods == "delete")
        self.housekeeping = Housekeeping(
            shared, api, self.binder, deletions, IdleEvictions(shared, api, self.counts),
            StaleClaims(shared, claim_writes),
        )  # fmt: skip
        self.claim_touch = ClaimTouch(shared, api)
        self.preemption = Preemption(shared, api, lambda _: None)
        self.touch = Touch(shared, api, "vgpu-scheduler")
        self.explainer = Explainer(shared, "vgpu-scheduler", lambda _: None)
        self.gauges = ClusterGauges(shared, self.explainer, self.leader.unread, self.counts, wall)

    def search(self) -> SearchCopy:
        """A copy of its own for searches."""
        return SearchCopy(self.shared, lambda _: None)

    def turn(self) -> None:
        """What is done about once a second."""
        self.housekeeping.step()
        self.preemption.step()

    def follow(self) -> None:
        """List, then hear every change at once."""
        self.view.node_news.sync(self.api.nodes())
        self.view.pod_news.sync(self.api.pods())
        self.view.job_news.sync(self.api.jobs.values())
        self.view.claim_news.sync(map(read_claim, self.api.claims.values()))
        self.api.watchers.append(self)

    def hear(self, pod: Pod) -> None:
        """The watch shows a pod."""
        self.view.pod_news.see(pod, watched=True)

    def lose(self, pod: Pod) -> None:
        """The watch shows that a pod is gone."""
        self.view.pod_news.gone(pod.uid)

    def hear_job(self, job: Metadata) -> None:
        """The watch shows a Job of a queue."""
        self.view.job_news.see(job)

    def lose_job(self, job: Metadata) -> None:
        """The watch shows that a Job is gone."""
        self.view.job_news.forget(job)

    def hear_claim(self, claim: Claim) -> None:
        """The watch shows a ResourceClaim."""
        self.view.claim_news.see(claim)

    def lose_claim(self, claim: Claim) -> None:
        """The watch shows that a ResourceClaim is gone."""
        self.view.claim_news.forget(claim)

    def renew(self, scheduler: str = "x") -> None:
        """The scheduler beside it renews the Lease, and the replica reads it."""
        self.api.held = Lease(f"{self.name}_{scheduler}", self.api.time())
        self.leadership.step()
        self.leadership.begin()

    def lead(self) -> None:
        """Take the Lease; returns once the replica places."""
        for _ in range(30):
            self.renew()
            if not self.leader.why_not():
                return
            self.clock.now += 1.0
        raise AssertionError(self.leader.why_not())

    def wait(self, seconds: float) -> None:
        """Time passes, and the Lease is renewed in it."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + 2.0)
            self.renew()

    def ask(self, pod: Pod, *nodes: str) -> str:
        """/filter: the node, or an empty text. A pod that is refused again by the call's beginning is refused alike."""
        offered = nodes or sorted(self.api.by_node)
        if not self.shared.why_not_leading():
            self.allocator.expire()
        again = self.filter.again(pod, offered)
        verdict = self.filter(pod, offered)
        assert again is None or refusal(again) == refusal(verdict)
        return verdict.nodes[0] if verdict.nodes else ""

    def extender(self) -> Extender:
        """The HTTP application, with kube-scheduler's calls as they come over the wire."""
        read = extender.FilterCalls()
        calls = Calls(read, extender.read_bind, extender.read_preempt, read.begun, extender.FilterAnswers())
        return Extender(
            self.filter, self.binder, self.preemption, self.explainer, Decisions(self.shared), calls
        )

    def bind(self, pod: Pod, node: str = "n1") -> str:
        """/bind: the error."""
        return self.binder(BindCall(pod.namespace, pod.name, pod.uid, node))

    def free(self, node: str = "n1") -> list[int]:
        """Free MiB of each card of a node."""
        found = self.view.ledger.node(node)
        return [card.free_mib for card in found.cards] if found else []


def refusal(verdict: Verdict) -> tuple[Any, ...]:
    """A verdict as values that can be compared."""
    return list(verdict.nodes), dict(verdict.failed), dict(verdict.hopeless), verdict.error


class World:
    """One leading replica and node n1 with two cards of 16,368 MiB and 60 core groups.

    With `claims`, pods may ask by ResourceClaims, and the node prepares them.
    """

    def __init__(self, *, claims: bool = False) -> None:
        self.clock = Clock()
        self.api = FakeApi()
        self.node("n1", preparing("n1") if claims else inventory("n1"))
        self.one = Replica(self.api, self.clock, claims=claims)
        self.one.follow()
        self.one.lead()

    def node(self, name: str, cards: Inventory | None) -> None:
        self.api.by_node[name] = Node(name, cards.encode() if cards else "")

    def pod(self, name: str, mem: int = 8, cores: int | None = 30, **more: object) -> Pod:
        """Create a pod that asks for a slice; half a card."""
        return self.api.put(pod(name, mem, cores, **more))

    def placed(self, name: str) -> Pod:
        """Create a pod and take it all the way; returns it as bound."""
        made = self.pod(name)
        assert self.one.bind(made, self.one.ask(made)) == ""
        return self.api.by_name["default", name]


class ClaimWorld(World):
    """A World whose pods ask by ResourceClaims of their own, which are gone once their pods are.

    Every node prepares claims.
    """

    def __init__(self) -> None:
        super().__init__(claims=True)
        end = self.api.remove

        def remove(pod: Pod) -> None:
            end(pod)
            for stored in (pod.claims or {}).values():
                self.api.remove_claim(stored, pod.namespace)

        self.api.remove = remove  # type: ignore[method-assign]

    def node(self, name: str, cards: Inventory | None) -> None:
        super().node(name, replace(cards, claims=True) if cards else None)

    def pod(self, name: str, mem: int = 8, cores: int | None = 30, **more: Any) -> Pod:
        if "containers" in more:
            return super().pod(name, mem, cores, **more)
        capacity = {"memory": f"{mem}Gi", **({} if cores is None else {"cores": str(cores)})}
        made = claim(f"claim-{name}", capacity, pod_uid=f"uid-{name}")
        made["metadata"]["namespace"] = more.get("namespace", "default")
        self.api.put_claim(made)
        return self.api.put(claim_pod(name, f"claim-{name}", **more))


class Apart:
    """Runs calls in threads of their own and hands their results back."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def run(self, call: Callable[[], None]) -> None:
        thread = threading.Thread(target=call, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, seconds: float = 60.0) -> None:
        for thread in self._threads:
            thread.join(seconds)
            assert not thread.is_alive()


def refuse(*_: object, **__: object) -> None:
    """An API server that says no."""
    raise RefusedError("admission: only the allocator may set a grant")


def version_of(found: Object) -> str:
    """The resource version of an object."""
    return str(found["metadata"]["resourceVersion"])
