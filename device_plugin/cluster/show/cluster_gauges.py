"""The metrics of the cluster service, read from the ledger at each scrape.

Only the leading replica exports the state of the cluster, so that no sum over both replicas counts anything twice.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.cluster.gangs import offered
from device_plugin.cluster.place import learning
from device_plugin.cluster.place.reservations import Reservations
from device_plugin.cluster.place.service import ReplicaService, Shared
from device_plugin.cluster.show.explain import FITS, HELD, PREEMPTING, Explainer
from device_plugin.core.cards import memory_units
from device_plugin.core.ledger import CardState, Snapshot
from device_plugin.core.metrics import CARD, Exporter, Metric, MetricType, Reading
from device_plugin.core.placement import workload
from device_plugin.core.reasons import Reason

MIB = 2**20

LEADER = Metric("vgpu_leader", Exporter.REPLICA, "1 while this replica leads, 0 while it stands by.")
SYNCED = Metric(
    "vgpu_synced", Exporter.REPLICA, "1 once this replica has listed all nodes and pods, 0 before."
)
GRANTED_MEMORY = Metric(
    "vgpu_card_granted_memory_bytes", Exporter.LEADER, "Memory of the card that is granted or reserved.", CARD
)
GRANTED_CORE_GROUPS = Metric(
    "vgpu_card_granted_core_groups", Exporter.LEADER, "Core groups of the card that are granted or reserved.", CARD
)  # fmt: skip
MEMORY_UNITS = Metric(
    "vgpu_memory_unit_nodes", Exporter.LEADER,
    "Nodes with cards of the family on which a memory unit is this many MiB. Two series of one family: the same request"
    " gets another amount of memory by node.", ("family", "unit_mib"),
)  # fmt: skip
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

KEPT = Metric(
    "vgpu_kept_entries", Exporter.REPLICA,
    "What this replica keeps in memory of what pods ask for: refusals, refused (pods), postponed (pods"
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

_CARDS: Sequence[tuple[Metric, Callable[[CardState], int]]] = (
    (GRANTED_MEMORY, lambda of: (of.card.mem_mib - of.free_mib) * MIB),
    (GRANTED_CORE_GROUPS, lambda of: of.card.core_groups - of.free_cores.bit_count()),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The metrics of one bounded store: its present size, its bound, and the number of entries left out so far."""

    count: int
    most: int
    left_out: int


class ClusterGauges(ReplicaService):
    """Returns all metrics of the service when called. It reads holdings from a snapshot, without the lock."""

    def __init__(self, shared: Shared, explainer: Explainer) -> None:
        super().__init__(shared)
        self._explainer = explainer

    def __call__(self) -> Iterator[Reading]:
        """The replica's own health and work, and the state of the cluster if it leads."""
        synced, leads = not self._view.why_not_synced(), not self._leader.why_not()
        yield Reading(SYNCED, [((), float(synced))])
        if not self._leader.unread():
            yield Reading(LEADER, [((), float(leads))])
        yield from self._counts.readings()
        yield from self._kept()
        if synced and leads:
            yield from self._cluster()

    def _kept(self) -> Iterator[Reading]:
        with self._view.lock:
            bounds = _bounds(self._reservations)
        yield Reading(KEPT, [((what,), float(bound.count)) for what, bound in bounds.items()])
        yield Reading(KEPT_MOST, [((what,), float(bound.most)) for what, bound in bounds.items()])
        yield Reading(KEPT_LEFT_OUT, [((what,), float(bound.left_out)) for what, bound in bounds.items()])

    def _cluster(self) -> Iterator[Reading]:
        with self._view.lock:
            snapshot = self._view.ledger.snapshot()
            faults = self._view.faults.counts()
            promised = self._view.promises.cards()
            ratio = self._reservations.placer.fragmentation()
        for metric, value in _CARDS:
            yield Reading(metric, _of_cards(snapshot, value))
        units = memory_units(snapshot.inventories())
        yield Reading(
            MEMORY_UNITS,
            [
                ((family, str(unit)), float(len(nodes)))
                for family, found in units.items()
                for unit, nodes in found.items()
            ],
        )
        yield Reading(FAULTS, [((kind,), float(count)) for kind, count in faults.items()])
        yield Reading(PROMISED, [((stage,), float(count)) for stage, count in promised.items()])
        if ratio is not None:
            yield Reading(FRAGMENTATION, [((), ratio)])
        yield self._unplaced()

    def _unplaced(self) -> Reading:
        counts = Counter(entry.reason for entry in self._explainer.waiting())
        reasons = [FITS, HELD, PREEMPTING, *(reason.value for reason in Reason)]
        return Reading(UNPLACED, [((reason,), float(counts[reason])) for reason in reasons])


def _of_cards(snapshot: Snapshot, value: Callable[[CardState], int]) -> Iterator[tuple[Sequence[str], float]]:
    """A metric's samples, one for each card."""
    for name in snapshot.nodes():
        node = snapshot.node(name)
        for card in node.cards if node is not None else ():
            yield (name, card.card.uuid), value(card)


def _bounds(made: Reservations) -> Mapping[str, Bound]:
    """All that grows with pods that wait, beside the pods themselves."""
    refused, waiting, queue = made.refusals.kept, made.waiting, made.preemption_queue
    postponed, scores, learnt, lists = made.postponed, made.placer.scores, made.learning, made.gangs.offered
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
