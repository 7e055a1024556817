"""The metrics of the cluster service, read from the ledger at each scrape.

Only the leading replica exports the state of the cluster, so that no sum over both replicas counts anything twice.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from device_plugin.allocator import learning
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.gangs import offered
from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.ledger_gauges import MERGED, MOST_NAMESPACES, LedgerGauges
from device_plugin.core.contract.metrics import OTHERS, Exporter, Metric, MetricType, Reading, largest
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.ledger import Holder
from device_plugin.core.placement import workload
from device_plugin.core.pod_states import WAITING_STATES
from device_plugin.core.timestamps import seconds

LEADER = Metric("vgpu_leader", Exporter.REPLICA, "1 while this replica leads, 0 while it stands by.")
SYNCED = Metric(
    "vgpu_synced", Exporter.REPLICA, "1 once this replica has listed all nodes and pods, 0 before."
)
FAULTS = Metric(
    "vgpu_faulty_annotations", Exporter.LEADER,
    "Annotations that are ignored now because they are malformed or contradict the cluster, by kind (inventory,"
    " grant, resize).", ("kind",),
)  # fmt: skip
FRAGMENTATION = Metric(
    "vgpu_fragmentation_ratio", Exporter.LEADER,
    "Share of all cards, 0 to 1, that is idle and that none of the pods to be expected can use. Absent until 64 pods"
    " have come.",
)  # fmt: skip
PROMISED = Metric(
    "vgpu_promised_cards", Exporter.LEADER,
    "Cards with slices that are promised to a job, by stage: leaving (pods of another job still hold them), kept (held"
    " for the job, without a pod).", ("stage",),
)  # fmt: skip
UNPLACED = Metric(
    "vgpu_unplaced_pods", Exporter.LEADER,
    "Pods that ask for a slice and have none, by the main reason: fits (kube-scheduler has not asked yet), held (by a"
    " scheduling gate, a selector or a volume), preempting (others are leaving for it), or why no card can be granted.",
    ("reason",),
)  # fmt: skip
UNPLACED_OLDEST = Metric(
    "vgpu_unplaced_oldest_seconds", Exporter.LEADER,
    "Time since the creation of the oldest of the pods that vgpu_unplaced_pods counts; 0 if there is none.",
    ("reason",),
)  # fmt: skip
UNPLACED_OF = Metric(
    "vgpu_namespace_unplaced_pods", Exporter.LEADER,
    f"Pods of the namespace that ask for a slice and have none, whatever the reason. {MERGED}", ("namespace",),
)  # fmt: skip

KEPT = Metric(
    "vgpu_kept_entries", Exporter.REPLICA,
    "Entries that this replica keeps in memory for requests: refusals, refused (pods), postponed (pods"
    " asked for while this replica does not place), preempting (pods that may), scores (of asks), asks (to be"
    " expected), arriving (pods not counted among those yet) and offered (lists of nodes for gangs).", ("what",),
)  # fmt: skip
KEPT_MOST = Metric(
    "vgpu_kept_entries_max", Exporter.REPLICA, "The most entries of each kind that this replica keeps.", ("what",)
)  # fmt: skip
KEPT_LEFT_OUT = Metric(
    "vgpu_kept_entries_left_out_total", Exporter.REPLICA,
    "Entries that were not kept, or not for long, because there were too many, in all or of one namespace.",
    ("what",), MetricType.COUNTER,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """The metrics of one bounded store: its present size, its bound, and the number of entries left out so far."""

    count: int
    most: int
    left_out: int


class ClusterGauges(Service):
    """Returns all metrics of the service when called. Holdings are read from a snapshot, without the lock.

    `unread` returns the error of the latest read of the Lease, empty if it succeeded. `wall` returns the seconds since
    1970.
    """

    def __init__(
        self, shared: Shared, explainer: Explainer, unread: Callable[[], str], counts: Counts,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(shared)
        self._explainer = explainer
        self._unread = unread
        self._counts = counts
        self._wall = wall
        self._ledger = LedgerGauges(self._namespace)

    def __call__(self) -> Iterator[Reading]:
        """Yield the metrics of this replica, and those of the cluster if this replica leads and has listed the cluster.

        While the Lease cannot be read, vgpu_leader is left out.
        """
        synced, leads = not self._view.why_not_synced(), not self._why_not_leading()
        yield Reading(SYNCED, [((), float(synced))])
        if not self._unread():
            yield Reading(LEADER, [((), float(leads))])
        yield from self._counts.readings()
        yield from self._kept()
        if synced and leads:
            yield from self._cluster()

    def _kept(self) -> Iterator[Reading]:
        with self._view.lock:
            bounds = _bounds(self._allocator)
        yield Reading(KEPT, [((what,), float(bound.count)) for what, bound in bounds.items()])
        yield Reading(KEPT_MOST, [((what,), float(bound.most)) for what, bound in bounds.items()])
        yield Reading(KEPT_LEFT_OUT, [((what,), float(bound.left_out)) for what, bound in bounds.items()])

    def _cluster(self) -> Iterator[Reading]:
        with self._view.lock:
            snapshot = self._view.ledger.snapshot()
            faults = self._view.faults.counts()
            promised = self._view.promises.slices.cards()
            ratio = self._allocator.placer.fragmentation()
        yield from self._ledger.readings(snapshot, self._view.agents.nodes())
        yield Reading(FAULTS, [((kind,), float(count)) for kind, count in faults.items()])
        yield Reading(PROMISED, [((stage,), float(count)) for stage, count in promised.items()])
        if ratio is not None:
            yield Reading(FRAGMENTATION, [((), ratio)])
        yield from self._unplaced()

    def _namespace(self, holder: Holder) -> str:
        """The namespace of the pod that is the `holder` of slices; empty if unknown.

        The pod may have ended, with processes that still run.
        """
        whose = self._view.pods.get(holder) or self._view.reports.outliving(holder)
        return whose.namespace if whose is not None else ""

    def _unplaced(self) -> Iterator[Reading]:
        now = self._wall()
        waiting = [
            (entry, max(0.0, now - seconds(entry.created, now))) for entry in self._explainer.waiting()
        ]
        reasons = [*(state.value for state in WAITING_STATES), *(reason.value for reason in Reason)]
        ages = {reason: [age for entry, age in waiting if entry.reason == reason] for reason in reasons}
        yield Reading(UNPLACED, [((reason,), float(len(found))) for reason, found in ages.items()])
        yield Reading(
            UNPLACED_OLDEST, [((reason,), max(found, default=0.0)) for reason, found in ages.items()]
        )
        counts = Counter((entry.namespace,) for entry, _ in waiting)
        yield Reading(UNPLACED_OF, largest(counts, MOST_NAMESPACES, lambda _: (OTHERS,)))


def _bounds(made: Allocator) -> Mapping[str, Bound]:
    """The sizes of the allocator's bounded stores, by the name that the metrics give each store."""
    room = made.waiting
    refused, waiting, queue, postponed = room.refusals.kept, room.pods, room.preemption, room.postponed
    scores, learnt, lists = made.placer.scores, made.learning, made.gangs.offered
    return {
        "refusals": Bound(len(refused), refused.most, refused.left_out),
        "refused": Bound(len(waiting), waiting.most, waiting.left_out),
        "postponed": Bound(len(postponed), postponed.most, postponed.left_out),
        "preempting": Bound(len(queue), queue.most, queue.left_out),
        "scores": Bound(len(scores), scores.most, scores.left_out),
        "asks": Bound(len(learnt.target), workload.MOST_COUNTED, learnt.target.left_out),
        "arriving": Bound(len(learnt), learning.MOST_NEW, learnt.left_out),
        "offered": Bound(len(lists), offered.MOST, lists.left_out),
    }
