"""The cluster's gauges, read from the ledger when they are asked for. What has no source has no sample."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from device_plugin.cluster.explain import FITS, PREEMPTING, Explainer
from device_plugin.cluster.leader import Leader
from device_plugin.cluster.state import State
from device_plugin.core.ledger import CardState
from device_plugin.core.reasons import Reason

MIB = 2**20
# Nodes that are read while the lock is held: less than half a millisecond.
NODES = 64

Sample = tuple[Sequence[str], float]
"""Label values and value."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge: for each set of label values a value. Its samples are read while they are gone through, once."""

    name: str
    help: str
    labels: Sequence[str]
    samples: Iterable[Sample]


_CARDS: Sequence[tuple[str, str, Callable[[CardState], int]]] = (
    ("vgpu_card_memory_bytes", "Memory of a card.", lambda of: of.card.mem_mib * MIB),
    (
        "vgpu_card_granted_memory_bytes", "Memory of a card that is granted or reserved.",
        lambda of: (of.card.mem_mib - of.free_mib) * MIB,
    ),
    ("vgpu_card_core_groups", "Core groups of a card.", lambda of: of.card.core_groups),
    (
        "vgpu_card_granted_core_groups", "Core groups of a card that are granted or reserved.",
        lambda of: of.card.core_groups - of.free_cores.bit_count(),
    ),
)  # fmt: skip


class Measures:
    """Call it for all gauges. A few nodes are read at a time, and `pause` lets others have the lock in between."""

    def __init__(
        self, state: State, leader: Leader, explainer: Explainer, pause: Callable[[], object]
    ) -> None:
        self._state = state
        self._leader = leader
        self._explainer = explainer
        self._pause = pause

    def __call__(self) -> Iterator[Gauge]:
        """Cards once nodes and pods were listed; unplaced pods only where they are placed; faults and leadership."""
        leads = not self._leader.why_not()
        if not self._leader.unread():
            yield Gauge("vgpu_leader", "1 if this replica leads.", (), [((), float(leads))])
        if self._state.why_not_synced():
            return
        with self._state.lock:
            names = list(self._state.inventories)
            faults = self._state.faults.counts()
            ratio = self._state.placer.fragmentation()
        names.sort()
        for name, text, value in _CARDS:
            yield Gauge(name, text, ("node", "card"), self._cards(names, value))
        yield Gauge(
            "vgpu_faulty_annotations", "Annotations that are ignored because they cannot be trusted.",
            ("kind",), [((kind,), float(count)) for kind, count in faults.items()],
        )  # fmt: skip
        if ratio is not None:
            yield Gauge(
                "vgpu_fragmentation_ratio",
                "Share of all cards that is idle and of no use to the pods that are to be expected.",
                (), [((), ratio)],
            )  # fmt: skip
        if leads:
            yield self._unplaced()

    def _cards(self, names: Sequence[str], value: Callable[[CardState], int]) -> Iterator[Sample]:
        for start in range(0, len(names), NODES):
            with self._state.lock:
                found = [self._state.ledger.node(name) for name in names[start : start + NODES]]
            # Some may be gone by now.
            for node in filter(None, found):
                for card in node.cards:
                    yield (node.name, card.card.uuid), value(card)
            self._pause()

    def _unplaced(self) -> Gauge:
        counts = Counter(entry.reason for entry in self._explainer.waiting())
        reasons = [FITS, PREEMPTING, *(reason.value for reason in Reason)]
        samples = [((reason,), float(counts[reason])) for reason in reasons]
        return Gauge("vgpu_unplaced_pods", "Pods that wait for a slice, by reason.", ("reason",), samples)
