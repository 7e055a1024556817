"""One term of leadership: watches, the serial scheduling cycle, concurrent binding cycles."""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import NODES, PODS, Change, Where
from device_plugin.kube.errors import ApiError
from hack.embedded import pod_spec
from hack.embedded.claims.uses import CLAIMS
from hack.embedded.pod_spec import Json
from hack.embedded.scheduler.cache import Cache, NoFitError, node_of
from hack.embedded.scheduler.claim_gate import ClaimGate
from hack.embedded.scheduler.extender_client import ExtenderClient, ExtenderError
from hack.embedded.scheduler.fit import Node, Pod
from hack.embedded.scheduler.queue import Queued, SchedulingQueue
from hack.embedded.scheduler.reports import SchedulerReports
from hack.embedded.scheduler.timing import SchedulerTiming

log = logging.getLogger(__name__)

BINDINGS = 32
# The field selector of kube-scheduler's watch: ended pods hold no resources.
LIVE_PODS = Where(fields="status.phase!=Succeeded,status.phase!=Failed")


class SchedulerSession:
    """Schedules the pods with schedulerName `name`, from `start` to `stop`; it pauses while `gate` is clear.

    With `claims`, pods wait until their ResourceClaims exist.
    """

    def __init__(
        self, client: KubeClient, extender: ExtenderClient, name: str, timing: SchedulerTiming, gate: threading.Event,
        rng: random.Random, *, claims: bool = False,
    ) -> None:  # fmt: skip
        self._client = client
        self._extender = extender
        self._name = name
        self._gate = gate
        self._rng = rng
        self._stop = threading.Event()
        self._cache = Cache()
        self._queue = SchedulingQueue(timing, time.monotonic)
        self._reports = SchedulerReports(client)
        self._bindings = ThreadPoolExecutor(BINDINGS, "scheduler-bind")
        self._pods: ListWatch[Pod] = ListWatch(self._client, PODS.json, LIVE_PODS)
        self._nodes: ListWatch[Node] = ListWatch(self._client, NODES.json)
        self._synced = [threading.Event(), threading.Event()]
        runs: list[tuple[str, Callable[[], None]]] = [
            ("pods", lambda: self._pods.run(self._sync_pods, self._on_pod, self._stop)),
            ("nodes", lambda: self._nodes.run(self._sync_nodes, self._on_node, self._stop)),
            ("cycle", self._run),
        ]
        self._claims: ListWatch[Json] = ListWatch(self._client, CLAIMS)
        self._with_claims = claims
        self._waiting = ClaimGate(self._queue.put)
        if claims:
            watch = self._claims
            runs.append(("claims", lambda: watch.run(self._waiting.sync, self._waiting.see, self._stop)))
        self._threads = [
            threading.Thread(target=run, name=f"scheduler-{what}", daemon=True) for what, run in runs
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads; Bindings that have begun are completed."""
        self._stop.set()
        self._queue.close()
        self._pods.interrupt()
        self._nodes.interrupt()
        self._claims.interrupt()
        for event in self._synced:
            event.set()
        for thread in self._threads:
            thread.join()
        self._bindings.shutdown(wait=True)
        self._reports.close()

    def _sync_pods(self, pods: Sequence[Pod]) -> None:
        listed = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            self._see_pod(pod)
        for uid in self._cache.pods.keys() - listed:
            self._lose_pod(uid)
        self._synced[0].set()

    def _sync_nodes(self, nodes: Sequence[Node]) -> None:
        for name in set(self._cache.nodes) - {node["metadata"]["name"] for node in nodes}:
            del self._cache.nodes[name]
        for node in nodes:
            self._on_node(Change.ADDED, node)
        self._synced[1].set()

    def _on_pod(self, change: Change, pod: Pod) -> None:
        if change is Change.DELETED:
            self._lose_pod(pod["metadata"]["uid"])
        else:
            self._see_pod(pod)

    def _on_node(self, change: Change, node: Node) -> None:
        if change is Change.DELETED:
            self._cache.nodes.pop(node["metadata"]["name"], None)
        elif self._cache.set_node(node):
            self._queue.move()

    def _see_pod(self, pod: Pod) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if self._cache.set_pod(pod):
            self._queue.move(binding=True)
        if node_of(pod) or spec.get("schedulerName") != self._name or spec.get("schedulingGates"):
            self._drop(uid)
        elif uid not in self._cache.assumed and not self._held(pod):
            self._queue.put(pod)

    def _lose_pod(self, uid: str) -> None:
        self._cache.assumed.pop(uid, None)
        was = self._cache.pods.pop(uid, None)
        self._drop(uid)
        self._reports.forget(uid)
        if was is not None and node_of(was):
            self._queue.move()

    def _held(self, pod: Pod) -> bool:
        """True if the pod waits for its ResourceClaims, outside the queue."""
        held = self._with_claims and self._waiting.holds(pod)
        if held:
            self._queue.drop(pod["metadata"]["uid"])
        return held

    def _drop(self, uid: str) -> None:
        """Schedule the pod of this UID no more."""
        self._queue.drop(uid)
        self._waiting.forget(uid)

    def _run(self) -> None:
        for event in self._synced:
            event.wait()
        while not self._stop.is_set():
            self._gate.wait()
            entry = self._queue.take()
            if entry is not None:
                self._schedule(entry)

    def _schedule(self, entry: Queued) -> None:
        pod = self._cache.pods.get(entry.uid)
        if pod is None or node_of(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        if self._held(pod):
            return
        entry.pod = pod
        try:
            host = self._host(pod)
        except NoFitError as error:
            entry.extender = error.extender
            self._fail(entry, "Unschedulable", str(error))
            return
        except ExtenderError as error:
            self._fail(entry, "SchedulerError", str(error))
            return
        self._cache.assumed[entry.uid] = host
        self._bindings.submit(self._bind, entry, host)

    def _host(self, pod: Pod) -> str:
        feasible, reasons = self._cache.feasible(pod)
        nodes = len(feasible) + len(reasons)
        asks = bool(feasible) and self._extender.interested(pod)
        if asks:
            feasible, failed = self._extender.filter(pod, feasible)
            reasons.update((name, [text]) for name, text in failed.items())
        if not feasible:
            raise NoFitError(nodes, reasons, extender=asks)
        # Without scores, kube-scheduler chooses a node at random.
        return self._rng.choice(feasible)

    def _bind(self, entry: Queued, host: str) -> None:
        self._gate.wait()
        try:
            if self._extender.interested(entry.pod):
                self._extender.bind(entry.pod, host)
            else:
                self._client.bind(pod_spec.ref(entry.pod), host, {}, {})
        except (ExtenderError, ApiError) as error:
            self._cache.assumed.pop(entry.uid, None)
            self._queue.move()
            self._fail(entry, "SchedulerError", str(error))
        else:
            self._reports.scheduled(entry.pod, host)

    def _fail(self, entry: Queued, reason: str, message: str) -> None:
        pod = self._cache.pods.get(entry.uid)
        # The pod may be bound although the answer to its Binding was lost.
        if pod is None or node_of(pod):
            return
        log.info("pod %s/%s: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], message)
        self._queue.give_back(entry, unschedulable=reason == "Unschedulable")
        if (now := self._cache.pods.get(entry.uid)) is None or node_of(now):
            # The pod has gone or was bound while it was returned to the queue.
            self._drop(entry.uid)
            return
        self._reports.failed(pod, reason, message)
